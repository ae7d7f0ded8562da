"""What an approver of moves between log dirs reads."""

from __future__ import annotations

from dataclasses import replace

from kafka_rebalance.documents.log_dir_plan import DirForecast, LogDirMove, LogDirPlan
from kafka_rebalance.log_dirs.request import approval_body, approval_subject, plan_lines
from support.documents.log_dir_sample import WRITTEN as SAMPLE

GIB = 1024**3
MOVES = tuple(LogDirMove("orders", number, 1, "/disk/a", "/disk/b", (7 - number) * GIB) for number in range(7))
PLAN = LogDirPlan("cluster", "drain", MOVES, 50 * 1024**2, 3, 0.1)
WRITTEN = replace(
    SAMPLE,
    connection_id="kafka_eu",
    run_id="manual__one",
    requested_by="olive",
    reason="disk `a` | fails {{ soon }}",
    broker=1,
    log_dir="/disk/a",
    plan=PLAN,
    digest=PLAN.digest,
    dirs=(
        DirForecast(1, "/disk/a", 28 * GIB, 0, 40 * GIB, 100 * GIB),
        DirForecast(1, "/disk/b", 10 * GIB, 38 * GIB, 90 * GIB, 100 * GIB),
        DirForecast(2, "/disk/c", 0, 0, 3 * GIB, None),
    ),
    bound_bytes=28 * GIB,
)


def test_the_request_has_digest_bytes_time_peaks_and_the_five_largest_moves() -> None:
    body = approval_body(WRITTEN)
    assert approval_subject(WRITTEN) == "Kafka kafka_eu: empty log dir /disk/a of broker 1?"
    assert WRITTEN.digest in body
    assert "7 replicas on 1 broker, 28.0 GiB (no plan copies less than 28.0 GiB), about 10 min at 50.0 MiB/s" in body
    peaks = [line for line in body.splitlines() if "`/disk/" in line and "GiB (" in line]
    assert [line.split("|")[2].strip() for line in peaks] == ["`/disk/b`", "`/disk/a`", "`/disk/c`"]
    assert "90.0 GiB (90 %)" in peaks[0]
    assert "3.00 GiB (size unknown)" in body
    moves = [line for line in body.splitlines() if line.startswith("| `orders-")]
    assert [line.split("`")[1] for line in moves] == [f"orders-{number}" for number in range(5)]
    assert "The 5 largest moves; the run's tab Rebalance has more:" in body
    assert len(body.encode()) < 4096


def test_what_a_person_wrote_is_no_markup_and_no_template() -> None:
    body = approval_body(WRITTEN)
    assert "{{" not in body
    assert "`disk 'a' ¦ fails { { soon }}`" in body


def test_each_job_says_what_it_does_and_what_stays_outside_the_band() -> None:
    even = replace(WRITTEN, plan=replace(PLAN, job="balance"), broker=None, log_dir=None, left_bytes=GIB)
    assert approval_subject(even) == "Kafka kafka_eu: even the log dirs of each broker within 10 %?"
    assert "1.00 GiB stay outside the band" in approval_body(even)
    one = replace(even, broker=3)
    assert "of broker 3 within" in approval_subject(one)
    back = replace(WRITTEN, plan=replace(PLAN, job="way_back"), of_run="manual__zero", broker=None, log_dir=None)
    assert approval_subject(back) == "Kafka kafka_eu: take back the moves between log dirs of run manual__zero?"


def test_the_log_names_the_largest_moves_and_every_log_dir() -> None:
    lines = plan_lines(WRITTEN)
    assert "orders-0 on broker 1: /disk/a -> /disk/b, 7.00 GiB" in lines
    assert sum(line.startswith("broker ") for line in lines) == 3
