"""A plan of 60 brokers whose sizes have changed a little is near the last one, in Spark and without it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench import scoring
from bench.clusters import SIZES, make_cluster
from kafka_rebalance.documents.json_files import write_json
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import run
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from kafka_rebalance.spark import job

pytestmark = pytest.mark.long

CASES = [("add", 0.1, 0.98), ("add", 0.02, 0.98), ("drain", 0.1, 0.95), ("drain", 0.02, 0.9), ("skew", 0.1, 0.95)]
THROUGH_SPARK = ("add", 0.1)


@pytest.mark.parametrize(("scenario", "tolerance", "most"), CASES)
def test_most_lists_stay_and_the_plan_is_as_good_as_a_fresh_one(
    scenario: str, tolerance: float, most: float, tmp_path: Path, start_submit: Callable[..., subprocess.Popen[str]]
) -> None:
    cluster, rng = make_cluster(SIZES["M"], scenario, 1), np.random.default_rng(1)
    asked = Settings(tolerance=tolerance, candidates=("balanced",))
    rows = [{**row, "size_bytes": int(row["size_bytes"] * rng.uniform(0.99, 1.01))} for row in cluster.partitions]
    folders = {name: tmp_path / name for name in ("before", "fresh", "near")}
    for folder in folders.values():
        folder.mkdir()
    write_snapshot(folders["before"], cluster.brokers, cluster.partitions)
    (first,) = run(folders["before"], folders["before"], asked)
    lists: dict[tuple[str, int], list[int]] = {m.topic_partition: list(m.after) for m in first.candidate.moves}
    write_snapshot(folders["fresh"], cluster.brokers, rows)
    (fresh,) = run(folders["fresh"], folders["fresh"], asked)
    later = [{**row, "proposed_balanced": lists.get((row["topic"], row["partition"]))} for row in rows]
    write_snapshot(folders["near"], cluster.brokers, later)
    (plan,) = run(folders["near"], folders["near"], asked)
    same = sum(lists.get(move.topic_partition) == list(move.after) for move in plan.candidate.moves)
    assert same >= most * len(plan.candidate.moves)
    assert plan.consequences["since_last"].same == same
    found = scoring.read_cluster(folders["near"])
    scored = scoring.score(found, scoring.moved(found, scoring.read_moves(folders["near"], "balanced")))
    assert scored.violations == 0
    assert scored.moved_bytes == plan.copied_bytes <= 1.005 * fresh.copied_bytes
    assert plan.shortfall_after.is_met
    if (scenario, tolerance) == THROUGH_SPARK:
        write_json(tmp_path, "settings.json", asked.to_mapping())
        where = ("--snapshot", str(folders["near"]), "--out", str(tmp_path / "spark"))
        process = start_submit(str(Path(job.__file__)), *where, "--settings", str(tmp_path / "settings.json"))
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
        for name in ("moves/part-0.parquet", "proposals.json"):
            assert (tmp_path / "spark" / name).read_bytes() == (folders["near"] / name).read_bytes(), name
