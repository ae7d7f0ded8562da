"""The fault matrix without a cluster: its cases, its records, and its table. The judge's eyes are tested here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faults import load, report
from faults.cases import FAULT_TEXTS, Case, Fault, Moment, matrix
from faults.cluster import AFTER, BEFORE, Truth
from faults.operator import leader_to_restart
from faults.run import Result, judge_end, judge_records
from local_cluster.locks import VERSIONS

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
    assert len({case.name for case in cases}) == len(cases) == len(VERSIONS) * len(Fault) * len(Moment)
    assert set(FAULT_TEXTS) == set(Fault)
    assert [case.name for case in matrix(["2.0.1"], ["rack"])] == [f"2.0.1/rack/{moment}" for moment in Moment]


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


def test_a_verdict_that_is_not_true_fails_the_case(tmp_path: Path) -> None:
    problems = judged(tmp_path, APPROVED, passed=False, state="failed", errors=["verify: VerificationError"])
    assert any("verification.json says passed=False" in problem for problem in problems)


@pytest.mark.parametrize(("copied", "told", "leader"), [(9, True, 2), (8, True, None), (9, False, None)])
def test_an_operator_restarts_the_leader_that_the_run_names_for_a_whole_copy(
    copied: int, told: bool, leader: int | None
) -> None:
    text = "t-1 is copying for 3 min. broker 2, which leads it, does not bring it into the ISR: restart that broker, or"
    one = {"partition": "t-1", "phase": "copying", "bytes_copied": copied, "bytes_total": 9}
    progress = {"partitions": [one], "anomalies": ["t-0: no leader", text] if told else ["t-0: no leader"]}
    assert leader_to_restart(progress) == leader
    assert leader_to_restart({}) is None


def test_the_table_shows_what_was_run_and_what_was_not(tmp_path: Path) -> None:
    page = tmp_path / "reliability.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    result = Result(CASE.name, 6, passed=True, seconds=31.4, acknowledged=6_179, state="success")
    report.write_table([result], page)
    report.write_table([result], page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert text.count("| 3.9.2 | kill -9 of the target broker | mid-copy | passed | 31 s | 6,179, 0 |") == 1
    assert text.count("not run") == len(list(matrix())) - 1
    assert "1 of 81 cases passed" in text
    assert "old" not in text
