"""The fault matrix without a cluster: its cases, its records, its table, and the eyes of its judges."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faults import load, report
from faults.cases import EVERY_VERSION, KILLED, KINDS, WITHOUT_ZOOKEEPER, Case, Fault, Moment, Needs, matrix
from faults.clusters.fault_cluster import AFTER, BEFORE, COPYING, LOG_DIR_RATE, Truth
from faults.clusters.replica_folders import DirsTruth, Replica, bytes_in, coming, lying
from faults.judge import judge_end, judge_records, judge_rest, judge_words
from faults.log_dir_judge import judge_rates, judge_run
from faults.log_dir_judge import judge_rest as judge_log_dirs_rest
from faults.log_dir_run import SLOW
from faults.one_case import Result
from faults.soak import drawn
from faults.strike import STRIKES, Strike
from kafka_rebalance.local_cluster.jars.locked_jars import VERSIONS

CASE = Case("3.9.2", Fault.TARGET, Moment.MID_COPY, seed=6)
APPROVED = Truth(
    replicas=AFTER,
    isr={partition: frozenset(after) for partition, after in AFTER.items()},
    leaders={partition: after[0] for partition, after in AFTER.items()},
    marked=False,
    reassigning=False,
    throttles={},
    locked=False,
)


def test_the_matrix_has_every_fault_at_every_moment_on_every_version() -> None:
    cases = list(matrix())
    of = {needs: sum(len(kind.moments) for kind in KINDS.values() if kind.needs is needs) for needs in Needs}
    anywhere = of[Needs.ANY] + of[Needs.LOG_DIRS]
    with_zookeeper = len(VERSIONS) * (anywhere + of[Needs.ZOOKEEPER]) - of[Needs.LOG_DIRS]
    without = len(WITHOUT_ZOOKEEPER) * (anywhere + of[Needs.QUORUM])
    assert len({case.name for case in cases}) == len(cases) == with_zookeeper + without
    kills = [case for case in cases if case.is_kill]
    assert [sum(case.version == version for case in kills) for version in EVERY_VERSION] == [27] * len(EVERY_VERSION)
    assert set(KINDS) == set(STRIKES) == set(Fault)
    assert [case.name for case in matrix(["2.0.1"], ["rack"])] == [f"2.0.1/rack/{moment}" for moment in KILLED]


def test_a_case_draws_the_same_numbers_whatever_ran_before_it() -> None:
    assert CASE.random().random() == replace(CASE).random().random()
    assert CASE.random().random() != replace(CASE, seed=7).random().random()


@pytest.mark.parametrize("size", [64, 1_024, 4_096])
def test_a_record_that_was_changed_anywhere_is_told(size: int) -> None:
    value = load.encode(12_345, size)
    assert len(value) == size
    assert load.decode(value) == 12_345
    for at in range(0, size, 7):
        assert load.decode(value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]) is None
    assert load.decode(value[:-1]) is None
    assert load.decode(None) is None


def test_a_record_that_is_lost_or_changed_fails_the_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = tmp_path / "acknowledged.txt"
    journal.write_text("0 0 7\n1 0 8\n")
    seen = load.LoadResult(acknowledged=2, refused=0, longest_gap_seconds=0.1, consumed=2, damaged=0)
    cluster: Any = SimpleNamespace(local=SimpleNamespace(bootstrap_servers=""))
    found: dict[tuple[int, int], int | None] = {(0, 0): 7, (1, 0): 8}
    monkeypatch.setattr(load, "read_back", lambda *_: found)
    assert judge_records(cluster, CASE, journal, seen) == (0, [])
    found[1, 0] = 9
    assert judge_records(cluster, CASE, journal, seen)[0] == 1
    found[1, 0] = None
    lost, problems = judge_records(cluster, CASE, journal, seen)
    assert lost == 1
    assert any("wrong checksum" in problem for problem in problems)


def judged(tmp_path: Path, truth: Truth, *, passed: bool = True, state: str = "success", **run: Any) -> list[str]:
    (tmp_path / "verification.json").write_text(f'{{"passed": {str(passed).lower()}}}')
    strike: Any = SimpleNamespace(problem="", struck_at=1.0, requests={7})
    tried: Any = SimpleNamespace(
        **{"case": CASE, "folder": tmp_path, "truths": (truth, truth), "kills": 0, "errors": [], **run}
    )
    return judge_end(tried, strike, state, {})


def test_an_end_that_is_the_approved_one_passes(tmp_path: Path) -> None:
    assert judged(tmp_path, APPROVED) == []


@pytest.mark.parametrize(
    ("truth", "told"),
    [
        (replace(APPROVED, replicas=BEFORE), "not the approved one"),
        (replace(APPROVED, isr={**APPROVED.isr, 0: frozenset({2, 3})}), "not the approved one"),
        (replace(APPROVED, leaders={**APPROVED.leaders, 0: 2}), "not the approved one"),
        (replace(APPROVED, reassigning=True), "not the approved one"),
        (replace(APPROVED, throttles={"brokers/1": {"leader.replication.throttled.rate": "1"}}), "throttles are"),
        (replace(APPROVED, locked=True), "still locked"),
    ],
)
def test_a_success_that_is_none_fails_the_case(tmp_path: Path, truth: Truth, told: str) -> None:
    assert any(told in problem for problem in judged(tmp_path, truth))


def test_who_was_killed_as_the_copies_ended_may_be_missed_only_behind_the_verification(tmp_path: Path) -> None:
    missed = replace(APPROVED, isr={**APPROVED.isr, 0: frozenset({2, 4})}, leaders={**APPROVED.leaders, 0: 2})
    assert judged(tmp_path, APPROVED, truths=(APPROVED, missed)) == []
    assert missed.is_placed
    assert not replace(missed, replicas=BEFORE).is_placed
    assert not replace(missed, marked=True).is_placed


def ended(fault: Fault, *, errors: tuple[str, ...] = (), **others: Any) -> Any:
    case = Case("3.9.2", fault, Moment.MID_COPY, seed=6)
    return SimpleNamespace(case=case, truths=(APPROVED, APPROVED), kills=0, errors=list(errors), **others)


def test_a_run_that_says_success_though_its_topic_was_deleted_fails_the_case(tmp_path: Path) -> None:
    strike: Any = SimpleNamespace(problem="", struck_at=1.0, requests={7})
    run = ended(Fault.TOPIC_DELETED, folder=tmp_path)
    assert any("its topic or its folder was gone" in problem for problem in judge_end(run, strike, "success", {}))


def test_nobody_has_to_put_back_a_throttle_that_somebody_else_lifted(tmp_path: Path) -> None:
    before = {"brokers/2": {"leader.replication.throttled.rate": "7"}}
    of_ours = replace(APPROVED, throttles={"brokers/1": {"leader.replication.throttled.rate": "1"}})
    run = ended(Fault.THROTTLE_LIFTED, folder=tmp_path)
    strike: Any = SimpleNamespace(problem="", struck_at=1.0, requests={7})
    (tmp_path / "verification.json").write_text('{"passed": true}')
    assert judge_end(run, strike, "success", before) == []
    run.truths = of_ours, of_ours
    assert any("throttles are" in problem for problem in judge_end(run, strike, "success", before))


@pytest.mark.parametrize(
    ("error", "raw"),
    [
        ("reassign: OSError: [Errno 28] No space left on device", True),
        ("verify: KeyError: 4", True),
        ("reassign: StorageError: The run's folder cannot be written (No space left on device). Nothing was", False),
        ("hold_throttle: killed", False),
    ],
)
def test_an_error_of_pythons_own_fails_the_case(error: str, raw: bool) -> None:
    run = ended(Fault.STORAGE_FULL, errors=(error,))
    assert bool(judge_words(run, error)) is raw


def test_a_fault_that_the_run_has_to_tell_of_fails_the_case_where_it_does_not() -> None:
    run = ended(Fault.FAILED_LOG_DIR)
    assert judge_words(run, "broker 4: log dir /data/a has failed") == []
    assert judge_words(run, "batch 1: 2 of 4 done") != []


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (APPROVED, ""),
        (replace(APPROVED, replicas={}), ""),
        (replace(APPROVED, replicas=BEFORE), ""),
        (replace(APPROVED, replicas=BEFORE | {0: (4, 1)}), "the lists are"),
        (replace(APPROVED, locked=True), "still locked"),
        (replace(APPROVED, reassigning=True), "in motion"),
        (replace(APPROVED, throttles={"topics/t": {"x": "*"}}), "throttles are"),
    ],
)
def test_a_run_that_cannot_succeed_may_leave_nothing_behind(now: Truth, told: str) -> None:
    problems = judge_rest(now, {})
    assert bool(problems) is bool(told)
    assert told in "".join(problems)


def test_a_soak_repeats_no_fault_before_all_were_drawn() -> None:
    cases = drawn("3.9.2", 6, 50)
    every = sum(len(kind.moments) for kind in KINDS.values() if kind.needs in (Needs.ANY, Needs.ZOOKEEPER))
    assert len({(case.fault, case.moment) for case in cases[:every]}) == every == 44
    assert len({case.topic for case in cases}) == len({case.name for case in cases}) == 50
    assert {case.time for case in cases[every:]} == {2}
    assert cases == drawn("3.9.2", 6, 50) != drawn("3.9.2", 7, 50)


def test_the_table_names_all_that_is_no_undisturbed_success(tmp_path: Path) -> None:
    page = tmp_path / "faults.md"
    page.write_text(f"{report.BEGIN}\n{report.END}\n")
    failed = Result(
        CASE.name, 6, lost=2, acknowledged=9, state="failed", cleared=True, operator="did", errors=["a", "b"]
    )
    report.write_tables([failed], page)
    told = "0 s; 9; 0.0 s; **the case failed**; **2 lost**; run failed; cleared once; did; 2 failed tries"
    assert f"| {told} |" in page.read_text()


def test_a_verdict_that_is_not_true_fails_the_case(tmp_path: Path) -> None:
    problems = judged(tmp_path, APPROVED, passed=False, state="failed", errors=["verify: VerificationError"])
    assert any("verification.json says passed=False" in problem for problem in problems)


# --- runs between log dirs ---

OTHERS_RATE = {"brokers/3": {LOG_DIR_RATE: "90000000"}}
OURS = {**OTHERS_RATE, "brokers/1": {LOG_DIR_RATE: "1000000"}}
MOVED, STAYED = (0, COPYING), (1, COPYING)
AT_REST = Truth({}, {}, {}, marked=False, reassigning=False, throttles=OTHERS_RATE, locked=False)
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
    assert [*judge_run(run, "success", OTHERS_RATE), *judge_log_dirs_rest(run, IN_PLACE, OTHERS_RATE)] == []


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
def test_a_success_between_log_dirs_that_is_none_fails_the_case(tmp_path: Path, end: DirsTruth, told: str) -> None:
    assert any(told in problem for problem in judge_run(run_of(tmp_path, end, end), "success", OTHERS_RATE))


@pytest.mark.parametrize(
    ("end", "passed"), [(NOT_MOVED, True), (IN_PLACE, False), (replace(IN_PLACE, coming={MOVED: "c"}), True)]
)
def test_a_verification_that_says_of_a_replica_what_its_folder_does_not_fails_the_case(
    tmp_path: Path, end: DirsTruth, passed: bool
) -> None:
    run = run_of(tmp_path, end, end, passed=passed)
    run.errors.append("verify: VerificationError")
    assert any("its folders say" in problem for problem in judge_run(run, "failed", OTHERS_RATE))


def test_a_copy_that_ends_during_the_verification_may_be_told_either_way(tmp_path: Path) -> None:
    for passed in (True, False):
        run = run_of(tmp_path, COPIED, IN_PLACE, passed=passed)
        run.errors.append("verify: VerificationError")
        assert [*judge_run(run, "failed", OTHERS_RATE)] == []


def test_a_run_that_fails_silently_or_verifies_nothing_fails_the_case(tmp_path: Path) -> None:
    assert any("did not say why" in problem for problem in judge_run(run_of(tmp_path, COPIED), "failed", OTHERS_RATE))
    assert any("nothing was verified" in problem for problem in judge_run(run_of(tmp_path), "failed", OTHERS_RATE))
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
    problems = [*judge_log_dirs_rest(run_of(tmp_path, fault=fault), end, OTHERS_RATE)]
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
