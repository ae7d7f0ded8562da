"""The fault matrix without a cluster: its cases, its records, and its table. The judge's eyes are tested here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faults import load, report
from faults.cases import EVERY_VERSION, KILLED, KINDS, WITHOUT_ZOOKEEPER, Case, Fault, Moment, Needs, matrix
from faults.clusters.fault_cluster import AFTER, BEFORE, Truth
from faults.growth import Figure, growth_problems, held_figures
from faults.judge import judge_end, judge_records, judge_rest, judge_words
from faults.one_case import Result
from faults.operator import Operator, leaders_to_restart
from faults.soak import drawn
from faults.strike import STRIKES
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


def test_an_operator_elects_another_controller_only_where_the_run_says_so() -> None:
    def looked(advice: str) -> tuple[str, str]:
        requested = [7]
        cluster: Any = SimpleNamespace(
            has_zookeeper=True,
            reassignment=lambda: requested[0] if requested else None,
            registered=lambda: {1, 2, 3, 4},
            elect_controller=requested.clear,
            wait=lambda what, holds, seconds: None,
        )
        operator = Operator(cluster)
        return operator.clear_request(advice), operator.did

    assert looked("Wait for its end") == (
        "the request stays, but the run does not say that another controller clears it",
        "",
    )
    assert looked("Only another controller clears it") == ("", "another controller elected, as the run asked")


def test_a_soak_repeats_no_fault_before_all_were_drawn() -> None:
    cases = drawn("3.9.2", 6, 50)
    every = sum(len(kind.moments) for kind in KINDS.values() if kind.needs in (Needs.ANY, Needs.ZOOKEEPER))
    assert len({(case.fault, case.moment) for case in cases[:every]}) == every == 44
    assert len({case.topic for case in cases}) == len({case.name for case in cases}) == 50
    assert {case.time for case in cases[every:]} == {2}
    assert cases == drawn("3.9.2", 6, 50) != drawn("3.9.2", 7, 50)


def test_what_is_beyond_its_limit_fails_the_soak_and_is_named() -> None:
    figures = [Figure("locks", 2, 1, ("a.json", "b.json")), Figure("leases", 1, 1), Figure("notes", 9, None)]
    assert growth_problems(figures) == ["locks: 2, at most 1 are documented a.json b.json"]


def test_a_process_may_keep_a_few_megabytes_but_no_descriptor_and_no_thread() -> None:
    first = (100, 12, 2)
    assert growth_problems([*held_figures("by it", (130, 12, 2), first)]) == []
    told = growth_problems([*held_figures("by it", (190, 13, 3), first)])
    assert [problem.split(":")[0] for problem in told] == [
        "MB held by it",
        "descriptors held by it",
        "threads held by it",
    ]


def test_the_table_names_all_that_is_no_undisturbed_success(tmp_path: Path) -> None:
    page = tmp_path / "reliability.md"
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


def copy_of(leader: int, *, copied: int = 9, is_late: bool = True) -> dict[str, object]:
    late = {"late_behind": leader} if is_late else {}
    return {"phase": "copying", "bytes_copied": copied, "bytes_total": 9, **late}


@pytest.mark.parametrize(("copied", "is_late", "leaders"), [(9, True, (2,)), (8, True, ()), (9, False, ())])
def test_an_operator_restarts_the_leader_of_a_whole_copy_that_the_run_calls_late(
    copied: int, is_late: bool, leaders: tuple[int, ...]
) -> None:
    assert leaders_to_restart({"partitions": [copy_of(2, copied=copied, is_late=is_late)]}) == leaders
    assert leaders_to_restart({}) == ()


def test_an_operator_restarts_each_leader_that_the_run_names_once(tmp_path: Path) -> None:
    partitions = [copy_of(leader) for leader in (1, 3, 1)]
    (tmp_path / "progress.json").write_text(json.dumps({"partitions": partitions}))
    started: list[int] = []
    local = SimpleNamespace(kill_broker=lambda broker: None, start_broker=started.append)
    cluster: Any = SimpleNamespace(local=local, registered=lambda: {1, 2, 3, 4})
    operator = Operator(cluster)
    for _ in range(4):
        operator.look(tmp_path)
    assert started == [1, 3]
    assert operator.did == "broker 1, 3 restarted, as the run asked"
