"""Odd clusters: what is drawn, that the judge finds what is put in, and that a few fixed clusters have no finding."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bench.odd_clusters
from bench.odd_clusters.__main__ import outcome, seed_of
from bench.odd_clusters.drawn import OddCluster, draw
from bench.odd_clusters.judge import findings
from kafka_rebalance.planning.__main__ import main as plan

Rows = list[dict[str, Any]]
_SEED, _CLUSTERS = 26, (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)


def small() -> OddCluster:
    """Six brokers in three racks with 12 partitions on three of them."""
    brokers = [{"broker": one, "rack": "abc"[one % 3], "disk_capacity_bytes": 10**5} for one in range(6)]
    partitions = [
        {"topic": "t", "partition": n, "replicas": held, "size_bytes": 1000 + n, "isr": held, "leader": held[0]}
        for n, held in enumerate([[0, 1, 2], [1, 2, 0], [2, 0, 1]] * 4)
    ]
    partitions += [{**row, "topic": "kept", "excluded": False} for row in partitions[:3]]
    settings = {"job": "balance", "candidates": ["light", "balanced"], "topics_out": ["kept"], "max_bytes": 10**6}
    return OddCluster(
        [{**row, "nic_in_bytes_per_second": None, "nic_out_bytes_per_second": None} for row in brokers],
        [
            {"bytes_in_per_second": None, "bytes_out_per_second": None, "min_insync_replicas": 1, "excluded": False}
            | row
            for row in partitions
        ],
        settings,
    )


@pytest.fixture
def planned(tmp_path: Path) -> tuple[OddCluster, Path]:
    cluster = small()
    cluster.write(tmp_path)
    settings = str(tmp_path / "settings.json")
    assert plan(["--snapshot", str(tmp_path), "--out", str(tmp_path / "out"), "--settings", settings]) == 0
    return cluster, tmp_path / "out"


def rewrite(out: Path, table: str, change: Callable[[Rows], None]) -> None:
    file = next((out / table).glob("*.parquet"))
    found = pq.read_table(file)
    rows: Rows = found.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=found.schema), file)


def test_a_sound_plan_has_no_finding(planned: tuple[OddCluster, Path]) -> None:
    assert findings(*planned) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "change", "finding"),
    [
        ("moves", lambda rows: rows[0].update(after=[3, 3, 4]), "[3, 3, 4] is no list"),
        ("moves", lambda rows: rows[0].update(after=[3, 4, 99]), "broker [99] does not exist"),
        ("moves", lambda rows: rows[0].update(topic="kept"), "it may not be changed"),
        ("moves", lambda rows: rows[0].update(before=[2, 1, 0]), "it starts from [2, 1, 0]"),
        ("moves", lambda rows: rows[0].update(bytes=1), "it has 1 bytes to copy"),
        ("moves", lambda rows: rows[0].update(batch=7), "batches are numbered"),
        ("moves", lambda rows: rows.append(rows[-1]), "a partition moves twice"),
        ("candidates", lambda rows: rows[0].update(leader_changes=99), "leader_changes is 99"),
        ("candidates", lambda rows: rows[0].update(crowded_replicas=99), "crowded_replicas is 99"),
        ("candidates", lambda rows: rows[0].update(copies_at_once=99), "copies_at_once is 99"),
        ("loads", lambda rows: rows[0].update(replicas=99), "replicas of broker 0 before are 99"),
        ("disk", lambda rows: rows[-1].update(peak_bytes=99), "bytes, not {"),
    ],
)
def test_the_judge_finds_what_is_put_in(
    planned: tuple[OddCluster, Path], table: str, change: Callable[[Rows], None], finding: str
) -> None:
    cluster, out = planned
    rewrite(out, table, change)
    assert any(finding in one for one in findings(cluster, out)), findings(cluster, out)


@pytest.mark.parametrize(
    ("settings", "finding"),
    [
        ({"brokers_out": [3, 4, 5]}, "is in brokers_out, and receives a replica"),
        ({"job": "drain", "drain": [3]}, "is to be emptied, and receives a replica"),
        ({"brokers_in": [0]}, "may not receive, and receives a replica"),
        ({"max_bytes": 1}, "and max_bytes is 1"),
        ({"pinned_topics": ["t"]}, "it is pinned, and moves"),
        ({"disk_headroom": 0.999}, "it is recommended, and fills the disk"),
    ],
)
def test_the_judge_holds_a_plan_to_its_request(
    planned: tuple[OddCluster, Path], settings: dict[str, Any], finding: str
) -> None:
    cluster, out = planned
    other = OddCluster(cluster.brokers, cluster.partitions, {**cluster.settings, **settings})
    assert any(finding in one for one in findings(other, out)), findings(other, out)


def test_the_same_seed_draws_the_same_cluster_and_draws_are_odd_in_many_ways() -> None:
    drawn = [draw(seed) for seed in range(200)]
    assert draw(7) == drawn[7]
    assert {one.settings["job"] for one in drawn} >= {"balance", "drain", "replace", "replication_factor", "relieve"}
    asked = {key for one in drawn for key in one.settings}
    assert asked >= {"brokers_out", "brokers_in", "broker_pools", "plan", "max_bytes", "rack_pinned_topics", "drain"}
    known = [{row["broker"] for row in one.brokers} for one in drawn]
    assert any(max(ids) > 2**31 - 200 for ids in known)
    held = [{broker for row in one.partitions for broker in row["replicas"]} for one in drawn]
    assert any(of - ids for of, ids in zip(held, known, strict=True)), "a dead broker holds replicas"
    assert any(not row["isr"] and row["leader"] == -1 for one in drawn for row in one.partitions)


def test_generator_and_judge_share_no_code_with_the_planner() -> None:
    folder = Path(bench.odd_clusters.__file__).parent
    for name in ("drawn", "known", "judge"):
        imported = {
            node.module or ""
            for node in ast.walk(ast.parse((folder / f"{name}.py").read_text()))
            if isinstance(node, ast.ImportFrom)
        }
        assert not [module for module in imported if module.startswith("kafka_rebalance")]


@pytest.mark.slow
@pytest.mark.parametrize("number", _CLUSTERS)
def test_a_fixed_odd_cluster_is_planned_or_refused_without_a_finding(number: int, tmp_path: Path) -> None:
    assert outcome(seed_of(_SEED, number), tmp_path).findings == []


def test_an_optimum_that_crowds_no_more_is_not_called_proven_where_balanced_crowds_and_copies_less(
    tmp_path: Path,
) -> None:
    assert outcome(seed_of(920093, 122), tmp_path).findings == []
    candidates = json.loads((tmp_path / "out" / "proposals.json").read_text())["candidates"]
    (optimum,) = [one for one in candidates if one["name"] == "optimal"]
    assert "is_proven" not in optimum
    assert "but balanced copies fewer" in optimum["note"]
