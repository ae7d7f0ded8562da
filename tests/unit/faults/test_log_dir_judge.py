"""The judge of runs between log dirs, without a cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faults.cases import Case, Fault, Moment
from faults.clusters.fault_cluster import COPYING, LOG_DIR_RATE, Truth, is_throttle
from faults.clusters.replica_folders import DirsTruth, Replica, bytes_in, coming, lying
from faults.log_dir_judge import judge_rates, judge_rest, judge_run
from faults.log_dir_run import SLOW
from faults.strike import Strike

BEFORE = {"brokers/3": {LOG_DIR_RATE: "90000000"}}
OURS = {**BEFORE, "brokers/1": {LOG_DIR_RATE: "1000000"}}
MOVED, STAYED = (0, COPYING), (1, COPYING)
AT_REST = Truth({}, {}, {}, marked=False, reassigning=False, throttles=BEFORE, locked=False)
IN_PLACE = DirsTruth(lying={MOVED: "b", STAYED: "a"}, coming={}, cluster=AT_REST, leased=False)
NOT_MOVED = replace(IN_PLACE, lying={MOVED: "a", STAYED: "a"})
COPIED = replace(NOT_MOVED, coming={MOVED: "b"})


def run_of(folder: Path, *looks: DirsTruth, passed: bool = True, fault: Fault = Fault.LOG_DIR_STEP) -> Any:
    """A run that has approved the move of partition 0 from a to b, and whose verification said `passed` of it."""
    case = Case("2.0.1", fault, Moment.MID_COPY, seed=6)
    move = {"topic": case.topic, "partition": 0, "broker": COPYING, "before": "/data/1/a", "after": "/data/1/b"}
    check = {"name": "log_dir", "subject": f"{case.topic}-0 on broker {COPYING}", "passed": passed}
    (folder / "log_dirs.json").write_text(json.dumps({"plan": {"moves": [move]}}))
    (folder / "verification.json").write_text(json.dumps({"passed": passed, "checks": [check]}))
    return SimpleNamespace(case=case, folder=folder, dirs=looks or None, errors=[])


def test_an_end_with_each_replica_where_it_was_approved_passes(tmp_path: Path) -> None:
    run = run_of(tmp_path, IN_PLACE, IN_PLACE)
    assert [*judge_run(run, "success", BEFORE), *judge_rest(run, IN_PLACE, BEFORE)] == []


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (NOT_MOVED, "are elsewhere"),
        (replace(IN_PLACE, coming={MOVED: "c"}), "are copied"),
        (replace(IN_PLACE, cluster=replace(AT_REST, throttles=OURS)), "throttles are"),
        (replace(IN_PLACE, cluster=replace(AT_REST, throttles={})), "throttles are"),
        (replace(IN_PLACE, cluster=replace(AT_REST, locked=True)), "still locked"),
        (replace(IN_PLACE, leased=True), "lease is still open"),
    ],
)
def test_a_success_that_is_none_fails_the_case(tmp_path: Path, end: DirsTruth, told: str) -> None:
    assert any(told in problem for problem in judge_run(run_of(tmp_path, end, end), "success", BEFORE))


@pytest.mark.parametrize(
    ("end", "passed"), [(NOT_MOVED, True), (IN_PLACE, False), (replace(IN_PLACE, coming={MOVED: "c"}), True)]
)
def test_a_verification_that_says_of_a_replica_what_its_folder_does_not_fails_the_case(
    tmp_path: Path, end: DirsTruth, passed: bool
) -> None:
    run = run_of(tmp_path, end, end, passed=passed)
    run.errors.append("verify: VerificationError")
    assert any("its folders say" in problem for problem in judge_run(run, "failed", BEFORE))


def test_a_copy_that_ends_during_the_verification_may_be_told_either_way(tmp_path: Path) -> None:
    for passed in (True, False):
        run = run_of(tmp_path, COPIED, IN_PLACE, passed=passed)
        run.errors.append("verify: VerificationError")
        assert [*judge_run(run, "failed", BEFORE)] == []


def test_a_run_that_fails_silently_or_verifies_nothing_fails_the_case(tmp_path: Path) -> None:
    assert any("did not say why" in problem for problem in judge_run(run_of(tmp_path, COPIED), "failed", BEFORE))
    assert any("nothing was verified" in problem for problem in judge_run(run_of(tmp_path), "failed", BEFORE))
    assert not any("nothing was" in one for one in judge_run(run_of(tmp_path, fault=Fault.LOG_DIR_LOST), "failed", {}))


@pytest.mark.parametrize(
    ("end", "fault", "told"),
    [
        (NOT_MOVED, Fault.LOG_DIR_STEP, ""),
        (COPIED, Fault.LOG_DIR_STEP, "copies go on"),
        (replace(IN_PLACE, leased=True), Fault.LOG_DIR_STEP, "lease is still open"),
        (replace(IN_PLACE, lying={MOVED: "c", STAYED: "a"}), Fault.LOG_DIR_STEP, "neither where they were"),
        (replace(IN_PLACE, lying={MOVED: "b", STAYED: "b"}), Fault.LOG_DIR_STEP, "neither where they were"),
        (replace(IN_PLACE, lying={MOVED: "c", STAYED: "a"}), Fault.LOG_DIR_ELSEWHERE, ""),
        (replace(IN_PLACE, lying={MOVED: "c", STAYED: "c"}), Fault.LOG_DIR_ELSEWHERE, "neither where they were"),
    ],
)
def test_what_is_left_at_the_end_fails_the_case(tmp_path: Path, end: DirsTruth, fault: Fault, told: str) -> None:
    problems = [*judge_rest(run_of(tmp_path, fault=fault), end, BEFORE)]
    assert bool(problems) is bool(told)
    assert told in "".join(problems)


def test_replicas_and_their_copies_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    names = {
        "1/a": ("t-0", "t-1", "other-0", "t-x-9", "t-2.0f3a-delete"),
        "1/b": ("t-0.0c7e16a0f0f14b6d-future", "t-3.0c7e-delete"),
        "2/c": ("t-0",),
    }
    for place, folders in names.items():
        for name in folders:
            (tmp_path / place / name).mkdir(parents=True)
    copy = tmp_path / "1/b/t-0.0c7e16a0f0f14b6d-future"
    (copy / "00000000000000000000.log").write_bytes(bytes(7))
    cluster: Any = SimpleNamespace(disk=lambda broker: tmp_path / str(broker))
    expected: dict[Replica, str] = {(0, 1): "a", (1, 1): "a", (0, 2): "c"}
    assert lying(cluster, "t") == expected
    assert coming(cluster, "t") == {(0, 1): copy}
    assert bytes_in(copy) == 7
    assert bytes_in(tmp_path / "gone") == 0


def test_the_rate_between_log_dirs_is_a_throttle_and_other_configs_are_not() -> None:
    assert is_throttle(LOG_DIR_RATE)
    assert is_throttle("leader.replication.throttled.replicas")
    assert not is_throttle("retention.ms")


def test_a_copy_that_two_looks_see_without_the_rate_fails_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {COPYING: {LOG_DIR_RATE: str(SLOW)}}
    copies: dict[Replica, Path] = {MOVED: Path("1/b/t-0.0c-future")}
    monkeypatch.setattr("faults.strike.coming", lambda cluster, topic: dict(copies))
    cluster: Any = SimpleNamespace(
        controller=lambda: None,
        registered=lambda: set(rates),
        throttles=lambda: {f"brokers/{broker}": set_there for broker, set_there in rates.items()},
    )
    ours: Any = None
    strike = Strike(cluster, Case("2.0.1", Fault.LOG_DIR_LOST, Moment.MID_COPY, seed=6), ours)

    def look() -> list[str]:
        strike.look_at_rates()
        return [*judge_rates(strike)]

    assert look() == look() == []
    rates[COPYING] = {}
    assert look() == [], "the copy may end at this moment"
    copies.clear()
    assert look() == []
    copies[MOVED] = Path("1/b/t-0.1d-future")
    assert look() == []
    del rates[COPYING]
    assert look() == [], "a broker that is away copies nothing"
    rates[COPYING] = {LOG_DIR_RATE: "90000000"}
    assert look() == []
    assert look() == [f"the copy of partition 0 on broker {COPYING} went on without the run's rate"]
