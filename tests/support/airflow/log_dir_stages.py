"""A run of `kafka_log_dirs` with its files at each stage of its life, as its page shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.folder_owner import FolderOwner
from kafka_rebalance.documents.log_dir_plan import DirForecast, LogDirMove, LogDirPlan
from kafka_rebalance.documents.progress import Progress
from kafka_rebalance.log_dirs.next_copies import CopyState
from kafka_rebalance.log_dirs.page import LogDirState
from kafka_rebalance.log_dirs.rules import check_log_dirs
from kafka_rebalance.run.approval_rules import REJECT
from kafka_rebalance.run.check_result import Verification, checks_in_order
from kafka_rebalance.run.clusters import LOG_DIRS_DAG
from support.airflow.web_run import NONCE_VALUE, Run, waiting
from support.documents import report_samples as samples
from support.documents.log_dir_sample import WRITTEN as SAMPLE

GIB, TIB = 1024**3, 1024**4
HOSTILE = "/data/<script>alert(1)</script>"
SIZES = (212, 190, 178, 150, 96, 71, 40, 22, 9, 3)
MOVES = tuple(
    LogDirMove("payments.settled" if number % 3 else "orders", number, broker, "/var/lib/kafka/data-1", to, size * GIB)
    for number, (broker, to, size) in enumerate(
        (1 + number % 2, "/var/lib/kafka/data-3" if number % 4 else "/var/lib/kafka/data-2", size)
        for number, size in enumerate(SIZES)
    )
)
PLAN = LogDirPlan("kC0oB0JqQfOvA", "balance", MOVES, 50 * 1024**2, 3, 0.1)
DIRS = (
    DirForecast(1, "/var/lib/kafka/data-1", 1610 * GIB, 1073 * GIB, 1700 * GIB, 2 * TIB),
    DirForecast(1, "/var/lib/kafka/data-2", 1002 * GIB, 1310 * GIB, 1400 * GIB, 2 * TIB),
    DirForecast(1, "/var/lib/kafka/data-3", 880 * GIB, 1109 * GIB, 1200 * GIB, 2 * TIB),
    DirForecast(2, "/var/lib/kafka/data-1", 1504 * GIB, 1068 * GIB, 1600 * GIB, 2 * TIB),
    DirForecast(2, "/var/lib/kafka/data-2", 990 * GIB, 990 * GIB, 1100 * GIB, 2 * TIB),
    DirForecast(2, "/var/lib/kafka/data-3", 640 * GIB, 1076 * GIB, 1150 * GIB, 2 * TIB),
)
WRITTEN = replace(
    SAMPLE,
    connection_id="orders-prod",
    requested_by="olive",
    reason="data-1 of brokers 1 and 2 fills first",
    plan=PLAN,
    digest=PLAN.digest,
    dirs=DIRS,
    bound_bytes=PLAN.size_bytes - 20 * GIB,
    left_bytes=35 * GIB,
)


@dataclass(frozen=True, slots=True)
class LogDirCase:
    """`done`: replicas in place when the run was last looked at; None: it has requested nothing."""

    state: LogDirState
    in_airflow: str = "running"
    has_plan: bool = True
    is_asked: bool = False
    choice: str | None = ""  # of the decision; empty: none was made
    done: int | None = None
    looked_seconds_ago: int = 3
    passed: bool | None = None
    opens_in_hours: int | None = None  # of the window for which the next copies wait

    def run(self) -> Run:
        """A new one, with these files."""
        made = Run(LOG_DIRS_DAG, self.in_airflow).with_tasks("plan")
        made.folder.mkdir(parents=True)
        owner = FolderOwner(made.dag_id, made.run_id, "orders-prod", 1)
        json_files.write_json(made.folder, json_files.NONCE, {"nonce": NONCE_VALUE, "owner": owner})
        made.with_xcom(run_folder=str(made.folder), nonce=NONCE_VALUE)
        if self.is_asked:
            waiting(made, "Kafka orders-prod: even the log dirs of each broker within 10 %?")
        for name, content in self._files(made).items():
            json_files.write_json(made.folder, name, content)
        return made

    def _files(self, run: Run) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        if self.has_plan:
            found[json_files.LOG_DIRS] = json_files.plain(replace(WRITTEN, dag_id=run.dag_id, run_id=run.run_id))
        if self.choice is None:
            found[json_files.DECISION] = {"choice": None}
        elif self.choice:
            found[json_files.DECISION] = {**samples.decision(self.choice), "digest": PLAN.digest}
        if self.done is not None:
            found[json_files.PROGRESS] = json_files.plain(self._progress(self.done))
        if self.passed is not None:
            paths = {move.replica: move.after for move in MOVES[: len(MOVES) if self.passed else self.done]}
            paths = {move.replica: move.before for move in MOVES} | paths
            checks = checks_in_order(check_log_dirs(MOVES, paths, {}))
            found[json_files.VERIFICATION] = json_files.plain(Verification(self.passed, checks, datetime.now(UTC)))
        return found

    def _progress(self, done: int) -> Progress:
        copied = sum(move.size_bytes for move in MOVES[:done])
        under_way = min(3, len(MOVES) - done) if self.opens_in_hours is None else 0
        phases = {
            CopyState.WAITING: len(MOVES) - done - under_way, CopyState.COPYING: under_way, CopyState.DONE: done,
        }  # fmt: skip
        rate, now = 61 * 1024**2, datetime.now(UTC)
        seen = Progress(
            updated_at=now - timedelta(seconds=self.looked_seconds_ago),
            state="requested",
            partitions_done=done,
            partitions_total=len(MOVES),
            bytes_copied=copied,
            bytes_total=PLAN.size_bytes,
            bytes_per_second=rate,
            eta_seconds=(PLAN.size_bytes - copied) / rate,
            phases={str(state): count for state, count in phases.items() if count},
        )
        if self.opens_in_hours is None:
            return seen
        return replace(seen, state="waiting", waiting_until=now + timedelta(hours=self.opens_in_hours))


APPROVED = "balance"
CASES: dict[str, LogDirCase] = {
    "planning": LogDirCase(LogDirState.PLANNING, has_plan=False),
    "nothing-to-move": LogDirCase(LogDirState.NOTHING_TO_MOVE, "success", has_plan=False),
    "ended-without-plan": LogDirCase(LogDirState.ENDED_WITHOUT_PLAN, "failed", has_plan=False),
    "planned": LogDirCase(LogDirState.PLANNED),
    "waiting": LogDirCase(LogDirState.WAITING, is_asked=True),
    "ended-undecided": LogDirCase(LogDirState.ENDED_UNDECIDED, "failed"),
    "rejected": LogDirCase(LogDirState.REJECTED, "success", choice=REJECT),
    "unanswered": LogDirCase(LogDirState.UNANSWERED, "failed", choice=None),
    "approved": LogDirCase(LogDirState.APPROVED, choice=APPROVED),
    "copying": LogDirCase(LogDirState.COPYING, choice=APPROVED, done=4),
    "paused": LogDirCase(LogDirState.PAUSED, choice=APPROVED, done=4, opens_in_hours=9),
    "verified": LogDirCase(LogDirState.VERIFIED, "success", choice=APPROVED, done=len(MOVES), passed=True),
    "failed": LogDirCase(LogDirState.NOT_AS_APPROVED, "failed", choice=APPROVED, done=4, passed=False),
    "ended-before-copies": LogDirCase(LogDirState.ENDED_BEFORE_COPIES, "failed", choice=APPROVED),
    "broken-off": LogDirCase(LogDirState.BROKEN_OFF, "failed", choice=APPROVED, done=4),
}
