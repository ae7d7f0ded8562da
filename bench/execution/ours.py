"""Runs the Dag's own tasks from plan to verification as a worker would, with a triggerer in a process of its own.

It replaces what Airflow does around them: XCom, the answer to the approval, and the messages between worker, scheduler
and triggerer. The figures do not include the cost of these.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.sdk.exceptions import TaskDeferred

from bench.execution.cluster import Entry, Lists
from bench.execution.triggerer import Triggerer
from faults.ours import product
from faults.ours.environment import airflow_environment
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ReadError
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.rebalance import request_batch
from kafka_rebalance.workflow.operators.moves import ReassignOperator

KNOWN_SECONDS = 120
Call = Callable[[Any], None]  # a method of the operator, called with Airflow's context
POLICY = (
    "approvers: [uma]\nmax_bytes_share: 1.0\nmax_throttle_bytes_per_second: 100000000\ncopies_per_broker: 100000\n"
    "leader_changes_per_batch: 100000\npartitions_per_batch: {partitions}\n"
)


def set_up_airflow(folder: Path, cluster: LocalCluster, partitions_per_batch: int) -> None:
    """Sets the environment of this process and of those that it starts: connection, policy and runs folder."""
    os.environ |= airflow_environment(folder, cluster, POLICY.format(partitions=partitions_per_batch))


class Ours:
    """One run. The caller calls its steps in order."""

    def __init__(
        self,
        run_id: str,
        lists: Lists,
        bytes_per_second: int,
        partitions_per_batch: int,
        from_bytes_per_second: int | None = None,
    ) -> None:
        plan = [{"topic": topic, "partition": p, "replicas": list(replicas)} for (topic, p), replicas in lists.items()]
        self.state: dict[str, Any] = {
            "dag_id": "kafka_rebalance",
            "run_id": run_id,
            "bytes_per_second": bytes_per_second,
            "params": {
                "topics_in": sorted({topic for topic, _ in lists}),
                "plan": json.dumps({"version": 1, "partitions": plan}),
                "candidates": ["leaders_only"],
                "throttle_bytes_per_second": bytes_per_second,
                "throttle_from_bytes_per_second": from_bytes_per_second,
                # Empty copies load no broker, so only the number of partitions limits a batch.
                "copies_per_broker": 100_000,
                "partitions_per_batch": partitions_per_batch,
            },
        }
        self.memory: Mapping[str, int] = {}

    def approve(self) -> None:
        """Plans and approves. Tries again while brokers do not know all partitions that ZooKeeper has."""
        give_up = time.monotonic() + KNOWN_SECONDS
        while "decision" not in self.state:
            try:
                self.state["decision"] = product.approve_plan(self.state)
            except ReadError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(1)

    @property
    def folder(self) -> Path:
        return Path(self.state["decision"]["run_folder"])

    @property
    def batches(self) -> list[list[Entry]]:
        """The partitions of each batch."""
        return [
            [(move.topic_partition.topic, move.topic_partition.partition) for move in batch.moves]
            for batch in read_candidate(self.folder, "given").batches
        ]

    def hold(self) -> None:
        product.STEPS["hold_throttle"](self.state)

    def reassign(self, between: Callable[[], None] = lambda: None) -> float:
        """Runs the task `reassign` to its end; returns its seconds without those of `between`.

        `between` is called before each batch. The worker follows a batch, and the triggerer takes over a long one.
        """
        advance, elsewhere = request_batch.Visit.advance, 0.0

        def advance_later(visit: request_batch.Visit, seen: Any = None) -> Any:
            nonlocal elsewhere
            began = time.monotonic()
            between()
            elsewhere += time.monotonic() - began
            return advance(visit, seen)

        request_batch.Visit.advance = advance_later  # type: ignore[method-assign, assignment]
        try:
            with Triggerer() as triggerer:
                next_call: Call | None = self._operator().execute
                began = time.monotonic()
                while next_call is not None:
                    next_call = self._go_on(next_call, triggerer, self._operator())
                return time.monotonic() - began - elsewhere
        finally:
            request_batch.Visit.advance = advance  # type: ignore[method-assign]

    def reassign_by_triggers(self, trips: int) -> list[float]:
        """Runs the first `trips` batches, which the triggerer follows, and notes its memory; returns their seconds."""
        operator = self._operator(stay_seconds=0)
        seconds: list[float] = []
        next_call: Call | None = operator.execute
        with Triggerer() as triggerer:
            while next_call is not None and len(seconds) < trips:
                began = time.monotonic()
                next_call = self._go_on(next_call, triggerer, operator)
                seconds.append(time.monotonic() - began)
        self.memory = triggerer.memory
        return seconds

    def _go_on(self, call: Call, triggerer: Triggerer, operator: ReassignOperator) -> Call | None:
        """Runs the task until it defers and its trigger fires. Returns the call that resumes it, None at its end."""
        try:
            call(self._context)
        except TaskDeferred as deferred:
            event = triggerer.fire(deferred.trigger)
            method = getattr(operator, deferred.method_name)
            return lambda context: method(context, event)
        return None

    def _operator(self, **options: Any) -> ReassignOperator:
        return ReassignOperator(task_id="reassign", decision=self.state["decision"], **options)

    @property
    def _context(self) -> Any:
        dag_run = SimpleNamespace(
            dag_id=self.state["dag_id"],
            run_id=self.state["run_id"],
            triggering_user_name="olive",
            run_type="manual",
        )
        return {"dag_run": dag_run}

    def finish(self) -> None:
        """Elects, releases and verifies. Ends the benchmark if the end is not as approved."""
        for step in ("elect_leaders", "release_throttle", "verify"):
            product.STEPS[step](self.state)
        if not json_files.read_json(self.folder, json_files.VERIFICATION)["passed"]:
            raise SystemExit("The verification did not pass.")
