"""What pages read of a plan's tables: once, from what was written for them, else from the tables themselves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.documents.json_files import PAGE, write_json
from kafka_rebalance.documents.proposals import PROPOSALS_FILE, Proposals
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import run
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.rebalance import report
from support.documents.built_report import summary_of
from support.plans.small_snapshots import broker_rows, partition_rows

NAME = "balanced"


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan's folder with what `render_report` adds for pages."""
    folder = tmp_path_factory.mktemp("planned")
    racks = {broker: f"rack-{broker % 2}" for broker in range(1, 5)}
    capacity = dict.fromkeys(range(1, 5), 100_000)
    lists = [[1, 2] if number % 2 else [2, 1] for number in range(16)]
    network = {"nic_in_bytes_per_second": {1: 1e6, 3: 2e6}, "nic_out_bytes_per_second": {1: 1e6}}
    brokers = broker_rows([1, 2, 3, 4], racks, disk_capacity_bytes=capacity, **network)
    write_snapshot(folder, brokers, partition_rows(lists, bytes_in_per_second=[100.0] * 16))
    run(folder, folder, Settings())
    report.write_tables(folder)
    return folder


@pytest.fixture
def folder(planned: Path, tmp_path: Path) -> Path:
    """A copy: nothing is kept of it in memory yet."""
    return Path(shutil.copytree(planned, tmp_path / "copy"))


def proposals(folder: Path) -> Proposals:
    return PROPOSALS_FILE.read(folder)


def test_a_page_reads_the_same_as_from_the_tables(folder: Path) -> None:
    found = report.read_page_tables(folder, proposals(folder), NAME)
    assert found == report.read_tables(folder, proposals(folder), NAME)
    assert found.moves == summary_of(read_candidate(folder, NAME).moves)
    assert found.moves.partitions > 0
    assert {broker.broker: broker.most_bytes for broker in found.brokers}[1] == 16_000
    assert [one.nic_in_bytes_per_second for one in found.brokers] == [1e6, None, 2e6, None]
    assert [one.nic_out_bytes_per_second for one in found.brokers] == [1e6, None, None, None]
    assert found.disks


def test_a_page_reads_no_moves(folder: Path) -> None:
    shutil.rmtree(folder / "moves")
    assert report.read_page_tables(folder, proposals(folder), NAME).moves.partitions > 0


@pytest.mark.parametrize(
    "content",
    [
        {"candidates": [{"name": NAME, "digest": "0" * 64}]},
        {"candidates": [{"name": NAME, "brokers": []}]},
        {"candidates": [3]},
        {},
    ],
)
def test_what_was_written_for_another_plan_or_cannot_be_read_is_not_used(folder: Path, content: dict[str, Any]) -> None:
    digest = next(entry.digest for entry in proposals(folder).candidates if entry.name == NAME)
    entries = [{"digest": digest} | entry if entry != 3 else entry for entry in content.get("candidates", [])]
    write_json(folder, PAGE, content | {"candidates": entries} if content else {})
    found = report.read_page_tables(folder, proposals(folder), NAME)
    assert found == report.read_tables(folder, proposals(folder), NAME)
    shutil.rmtree(folder / "moves")
    assert report.read_page_tables(folder, proposals(folder), NAME) == found, "read once"


def test_moves_are_read_ahead_once_and_a_failure_is_left_to_whoever_asks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Now:
        """Reads at once."""

        def ask(self, name: str, read: Callable[[], None]) -> None:
            with suppress(ArtifactError):
                read()

    monkeypatch.setattr(report, "_ahead", Now())
    report.begin_to_read(folder, proposals(folder), NAME)
    shutil.rmtree(folder / "moves")
    monkeypatch.setattr(Now, "ask", None)
    report.begin_to_read(folder, proposals(folder), NAME)
    assert report.read_move_table(folder, proposals(folder), NAME).summary().partitions > 0
    monkeypatch.undo()
    report.begin_to_read(folder, proposals(folder), "light")
    with pytest.raises(ArtifactError):
        report.read_move_table(folder, proposals(folder), "light")


def test_the_moves_in_use_stay_however_large() -> None:
    large: Any = SimpleNamespace(size_bytes=10 * report.MOVE_TABLES_BYTES)
    assert report._moves.getsizeof(large) <= report._moves.maxsize


def test_moves_that_do_not_give_the_digest_are_neither_searched_nor_written(folder: Path) -> None:
    plan = proposals(folder)
    forged = [replace(one, digest="0" * 64) if one.name == NAME else one for one in plan.candidates]
    changed = replace(plan, candidates=tuple(forged))
    for reading in (report.read_tables, report.read_move_table):
        with pytest.raises(ArtifactError, match="somebody changed one of the files"):
            reading(folder, changed, NAME)


def test_all_moves_and_brokers_lie_beside_the_report_as_csv(folder: Path) -> None:
    for name in (candidate.name for candidate in proposals(folder).candidates):
        lines = (folder / f"moves-{name}.csv").read_text().splitlines()
        assert len(lines) == 1 + len(read_candidate(folder, name).moves)
        assert len((folder / f"brokers-{name}.csv").read_text().splitlines()) == 1 + 4
