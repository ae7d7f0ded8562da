"""The run of a case between log dirs: the tasks of `kafka_log_dirs` after the approval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faults import load
from faults.cases import Case, Fault, Moment
from faults.clusters.fault_cluster import LOG_DIR_RATE, LOG_DIRS, FaultCluster
from faults.clusters.replica_folders import DirsTruth, gather, settled_dirs
from faults.ours.processes import Processes, Step
from faults.run import Run, TaskFailedError

SLOW, FAST = 1_000_000, 50_000_000  # bytes per second of each broker: a copy takes three seconds, or no time
PRIOR_ENTITY, PRIOR = "brokers/3", {LOG_DIR_RATE: "90000000"}  # somebody else has set it, and it must come back
LOOK_SECONDS = 0.3


class LogDirRun(Run):
    """A balance of the log dirs of each broker. Before, all replicas of the topic lie in the first one.

    `number`: 1 for the run that the fault strikes. Nobody strikes a later one.
    """

    dag_id, moving_task = "kafka_log_dirs", "move"

    def __init__(
        self, cluster: FaultCluster, processes: Processes, case: Case, records: load.LoadProcess, number: int = 1
    ) -> None:
        super().__init__(cluster, processes, case, records)
        self.is_struck = number == 1
        self.dirs: tuple[DirsTruth, DirsTruth] | None = None  # before and after the verification
        self._state |= {"run_id": f"{case.topic}-{number}"}
        self._kills_itself = bool(self._to_kill)
        if not self.is_struck:
            self._to_kill = {}
        elif case.fault is Fault.LOG_DIR_LOST:
            self._retries = dict.fromkeys(self._retries, 0)

    def approve(self) -> None:
        """Gathers the replicas, plans their moves and approves them."""
        self.cluster.configure(PRIOR_ENTITY, PRIOR)
        gather(self.cluster, self.case.topic, LOG_DIRS[0])
        rate = SLOW if self.is_struck else FAST
        self._state["params"] = {"job": "balance", "throttle_bytes_per_second": rate, "copies_per_broker": 1}
        self._state["decision"] = self.processes.call("approve_log_dirs", self._state)

    def execute(self) -> str:
        """Runs `hold_rate` to `verify`, also when somebody clears them; returns the state of the Dag run."""
        if not self._succeeds("hold_rate"):
            return "failed"  # Airflow runs no teardown after a setup that failed
        moved = True
        try:
            self._move()
        except TaskFailedError:
            moved = False
        if self.is_struck and self.case.fault is Fault.LOG_DIR_LOST:
            self.tend()
            return "failed"
        released = self._succeeds("release_rate")
        before = self.look()
        verified = self._succeeds("verify")
        self.dirs = before, self.look()
        return "success" if moved and released and verified else "failed"

    def again(self) -> LogDirRun:
        """A second run on the same topic."""
        return LogDirRun(self.cluster, self.processes, self.case, self._records, number=2)

    def kill(self) -> None:
        if not self._kills_itself:
            super().kill()

    def _victim(self) -> Step | None:
        return self._following if self.case.moment is Moment.FOLLOW else super()._victim()

    def look(self) -> DirsTruth:
        return settled_dirs(self.cluster, self.case.topic, self.folder.parents[2])

    def _stays(self) -> bool:
        return self.case.moment is not Moment.FOLLOW and self.case.fault is not Fault.LOG_DIR_RESTART

    def _follow(self, deferred: Mapping[str, Any]) -> dict[str, Any]:
        quick = {"arguments": dict(deferred["arguments"]) | {"slowest_poll_seconds": LOOK_SECONDS}}
        return super()._follow(dict(deferred) | quick)

    def _kills_planned(self) -> dict[str, dict[str, Any]]:
        if self.case.fault is not Fault.LOG_DIR_STEP:
            return {}
        seconds = self._random.uniform(0, 0.02)
        step, writes, to = {
            Moment.CLAIM: ("hold_rate", 1, "the lock"),
            Moment.THROTTLE: ("hold_rate", self._random.randint(2, 4), "a cluster"),
            Moment.ALTER: ("move", 1, "brokers"),
            Moment.CLEAN_UP: ("release_rate", self._random.randint(1, 4), "a cluster"),
            Moment.VERIFY: ("verify", self._random.randint(1, 2), "files"),
        }.get(self.case.moment, ("", 0, ""))
        return {step: {"writes": writes, "seconds": seconds, "to": to}} if step else {}
