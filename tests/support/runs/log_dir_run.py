"""One run of `kafka_log_dirs` without Airflow's processes: the tasks' own functions and the real approval operator.

The cluster is real. Simulated are XCom, the person who answers, and the triggerer, whose looks are taken here.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE, PlannedLogDirs
from kafka_rebalance.documents.progress import PROGRESS_FILE
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.log_dirs.copies import Copying, move_replicas, verify
from kafka_rebalance.log_dirs.follow_copies import CopiesFollower
from kafka_rebalance.log_dirs.plan import plan_moves
from kafka_rebalance.log_dirs.rate import hold_rate, release_rate
from kafka_rebalance.run.checks.batch_wait import Wait
from kafka_rebalance.run.watch_batch import BatchSeen
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.run_step import run_step
from support.runs.asked_run import AskedRun
from support.runs.rebalance_run import set_up_airflow

CONNECTION = "kafka_log_dirs_run"
POLICY = "approvers: [uma]\nmax_bytes_share: 1.0\ninternal_topics: true\n"
LOOK_SECONDS = 0.2
_NUMBERS = itertools.count(1)


class LogDirRun(AskedRun):
    approval = "kafka_rebalance.log_dirs.request.LogDirApproval"

    def __init__(
        self, folder: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, policy: str = POLICY
    ) -> None:
        set_up_airflow(monkeypatch, folder, cluster, CONNECTION, policy)
        run_id = f"run-{next(_NUMBERS)}"  # a run of its own, not a later attempt of the one before
        behind = ("hold_rate", "move", "release_rate", "verify")
        super().__init__(monkeypatch, "kafka_log_dirs", behind, run_id, "olive")

    @property
    def written(self) -> PlannedLogDirs:
        return LOG_DIRS_FILE.read(self.folder)

    @property
    def verification(self) -> dict[str, Any]:
        return json_files.read_json(self.folder, json_files.VERIFICATION)

    def plan(self, **params: Any) -> Any:
        return self.first_step(plan_moves, CONNECTION, params)

    def hold(self) -> ThrottleLease | Wait:
        return run_step(hold_rate, self.dag_run, self.xcom["decision"])

    def move(self, seen: BatchSeen | None = None, stay_seconds: float = 0.0) -> Copying | Wait | None:
        """One call of `move`: what it follows from then on, None once all are in place."""
        return run_step(move_replicas, self.dag_run, self.xcom["decision"], seen, stay_seconds)

    def follow(self, stall_seconds: float = 60.0) -> BatchSeen:
        """The trigger's looks until it fires."""
        follower = CopiesFollower(read_connection(CONNECTION), self.folder, stall_seconds)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            seen = follower.look(time.time(), lambda _: None)
            if seen is not None:
                return seen
            time.sleep(LOOK_SECONDS)
        raise TimeoutError(f"the copies are not over: {PROGRESS_FILE.read(self.folder)}")

    def move_all(self, stall_seconds: float = 60.0) -> int:
        """Returns how often the trigger was waited for."""
        followed, copying = 0, self.move()
        while copying is not None:
            seen = self.follow(stall_seconds)
            followed, copying = followed + 1, self.move(seen)
        return followed

    def release(self) -> dict[str, Any]:
        return run_step(release_rate, self.dag_run, self.xcom["decision"])

    def verify(self) -> dict[str, int]:
        return run_step(verify, self.dag_run, self.xcom["decision"])

    def carry_out(self, **params: Any) -> int:
        """From the plan to the verification, approved by uma; returns how often the trigger was waited for."""
        self.plan(**params)
        self.answer()
        self.hold()
        followed = self.move_all()
        self.release()
        self.verify()
        return followed
