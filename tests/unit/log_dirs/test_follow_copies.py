"""The follower of copies between log dirs: when it wakes the run, and when it gives up. The brokers are simulated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.admin.log_dirs import BrokerDisks, FutureReplica, LogDir
from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE, LogDirMove, LogDirPlan
from kafka_rebalance.documents.progress import PROGRESS_FILE
from kafka_rebalance.errors import ReadError
from kafka_rebalance.log_dirs.follow_copies import CopiesFollower
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.watch_batch import BatchState
from support.documents.log_dir_sample import WRITTEN

MOVES = tuple(LogDirMove("t", number, 1, "/a", "/b", 100) for number in range(3))
STALL = 100.0


class Brokers:
    """Broker 1, of which t-0 to t-2 lie in /a unless `done`; `copies` are bytes by partition."""

    def __init__(self) -> None:
        self.copies: dict[int, int] = {}
        self.done: set[int] = set()
        self.online = True
        self.is_away = False

    def read(self, kafka: Any, brokers: Any) -> BrokerDisks:
        if self.is_away:
            raise ReadError("Broker 1 cannot be read")
        tps = {number: TopicPartition("t", number) for number in range(3)}
        return BrokerDisks(
            replicas={tp: {1: 100} for tp in tps.values()},
            log_dirs={1: (LogDir("/a", online=self.online), LogDir("/b"))},
            paths={tp: {1: "/b" if number in self.done else "/a"} for number, tp in tps.items()},
            future={tps[number]: {1: FutureReplica("/b", size)} for number, size in self.copies.items()},
        )


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    found = Brokers()
    monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_log_dirs", found.read)
    return found


@pytest.fixture
def follower(tmp_path: Path) -> CopiesFollower:
    plan = LogDirPlan("id", "drain", MOVES, 1000, 2, 0.1)
    LOG_DIRS_FILE.write(tmp_path, replace(WRITTEN, plan=plan, digest=plan.digest))
    return CopiesFollower(ClusterConnection("k", None, KafkaConnection("b:9092")), tmp_path, STALL)


def look(follower: CopiesFollower, at: float) -> BatchState | None:
    seen = follower.look(at, lambda _: None)
    return None if seen is None else seen.state


def test_it_waits_while_as_many_copy_as_may_and_notes_how_far_they_are(
    brokers: Brokers, follower: CopiesFollower
) -> None:
    brokers.copies = {0: 10, 1: 20}
    assert look(follower, 1000.0) is None
    brokers.copies = {0: 60, 1: 70}
    assert look(follower, 1010.0) is None
    assert look(follower, 1020.0) is None
    noted = PROGRESS_FILE.read(follower.folder)
    assert (noted.partitions_done, noted.partitions_total) == (0, 3)
    assert (noted.bytes_copied, noted.bytes_total) == (130, 300)
    assert noted.bytes_per_second == 5.0
    assert noted.eta_seconds == 34.0
    assert noted.phases == {"waiting": 1, "copying": 2}


@pytest.mark.parametrize("change", ["slot", "offline", "over", "elsewhere"])
def test_it_wakes_the_run_for_what_only_the_run_may_do(
    brokers: Brokers, follower: CopiesFollower, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.copies = {0: 10, 1: 20}
    assert look(follower, 1000.0) is None
    if change == "slot":
        brokers.copies, brokers.done = {1: 20}, {0}
    elif change == "offline":
        brokers.online = False
    elif change == "over":
        brokers.copies, brokers.done = {}, {0, 1, 2}
    else:
        monkeypatch.setattr(
            "kafka_rebalance.admin.log_dirs.read_log_dirs",
            lambda *_: BrokerDisks({}, {1: (LogDir("/a"),)}, {TopicPartition("t", 0): {1: "/c"}}),
        )
    assert look(follower, 1001.0) is BatchState.READY


def test_copies_that_do_not_grow_are_given_up_after_a_time_and_those_that_do_are_not(
    brokers: Brokers, follower: CopiesFollower
) -> None:
    for number in range(10):
        brokers.copies = {0: number, 1: 0}
        assert look(follower, 1000.0 + number * STALL) is None
    assert look(follower, 1900.0 + STALL) is None
    seen = follower.look(1901.0 + STALL, lambda _: None)
    assert seen is not None
    assert seen.state is BatchState.STALLED
    assert "2 copies between log dirs have not grown for 101 s" in seen.message


def test_a_broker_that_stays_away_is_said_once_and_given_up_after_a_time(
    brokers: Brokers, follower: CopiesFollower
) -> None:
    said: list[str] = []
    assert follower.away(1000.0, "away", said.append) is None
    assert follower.away(1000.0 + STALL, "away", said.append) is None
    given_up = follower.away(1001.0 + STALL, "away", said.append)
    assert given_up is not None
    assert given_up.state is BatchState.UNREADABLE
    assert said == ["away"]
    brokers.copies = {0: 10, 1: 20}
    assert look(follower, 1300.0) is None
    assert follower.away(1301.0, "away again", said.append) is None
    assert said == ["away", "away again"]


def test_a_lease_in_the_folder_that_cannot_be_read_ends_no_run(
    brokers: Brokers, follower: CopiesFollower, tmp_path: Path
) -> None:
    (tmp_path / "throttle.json").write_text("{")
    brokers.copies = {0: 10, 1: 20}
    assert look(follower, 1000.0) is None
