"""One run of `kafka_rebalance_cancel` without Airflow's processes: the tasks' own functions and the real approval.

Simulated are Airflow's XCom and the person who answers. The cluster is that of the rebalance, real or simulated.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.cancel import elect_controller as controller_election
from kafka_rebalance.cancel import request as cancel_request
from kafka_rebalance.cancel.cancel_file import CONSENT
from kafka_rebalance.cancel.cancel_now import cancel_now, stop_run, verify
from kafka_rebalance.cancel.set_throttle import raise_throttle, set_throttle
from kafka_rebalance.documents import json_files
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.workflow.run_step import run_step
from kafka_rebalance.zookeeper.znodes import encode_reassignment
from support.kafka.recordings.cancelled_moves import cancel_by_api, fail_over
from support.runs.asked_run import AskedRun
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import TOPICS, SimulatedCluster, SimulatedRun
from support.zookeeper.fake_zookeeper import REASSIGN

BEFORE = {topic: {p: list(replicas) for p, replicas in lists.items()} for topic, lists in TOPICS.items()}


def let_cancel(cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller, and from 2.4 on the brokers, cancel as those of its version."""
    fail_over(cluster.fake, cluster.controller)
    monkeypatch.setattr("kafka_rebalance.admin.reassignments.can_cancel", lambda _: cluster.controller.version != "2.0")
    monkeypatch.setattr(
        "kafka_rebalance.admin.reassignments.cancel_reassignments",
        lambda _, asked: cancel_by_api(cluster.fake, cluster.controller, asked),
    )


def cancellable_cluster(monkeypatch: pytest.MonkeyPatch, version: str) -> SimulatedCluster:
    """With what a controller of that version does when it is told to cancel; it goes on while somebody waits."""
    made = SimulatedCluster(monkeypatch, TOPICS, version)
    let_cancel(made, monkeypatch)
    clock = SimpleNamespace(time=time.time, monotonic=time.monotonic, sleep=lambda _: made.step())
    monkeypatch.setattr("kafka_rebalance.clock.time", clock)
    monkeypatch.setattr("kafka_rebalance.cancel.elect_controller.time", clock)
    monkeypatch.setattr("kafka_rebalance.cancel.cancel_now.SETTLE_SECONDS", 5)
    monkeypatch.setattr("kafka_rebalance.cancel.elect_controller.SETTLE_SECONDS", 5)
    return made


def begin(run: SimulatedRun, cluster: SimulatedCluster, steps: int = 1) -> int:
    """The first batch, requested and so many stages on its way."""
    run.hold()
    batch = run.request()
    assert batch == 1
    for _ in range(steps):
        assert cluster.step()
    return batch


def lost_request(cluster: SimulatedCluster, asked: Mapping[TopicPartition, Sequence[int]]) -> None:
    """A request of which the controller does not think any more; the next one reads it."""
    cluster.fake.create(REASSIGN, encode_reassignment(asked))
    cluster.controller._taken = cluster.fake.znodes[REASSIGN].czxid


def lists(cluster: SimulatedCluster) -> dict[str, dict[int, list[int]]]:
    return {topic: cluster.replicas(topic) for topic in TOPICS}


def release(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    """What the cancelled run's own teardown does."""
    run.release()
    assert cluster.leftovers() == []


class CancelRun(AskedRun):
    approval = "kafka_rebalance.cancel.request.CancelApproval"

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, run_id: str = "cancel", by: str = "olive", of: str = CONNECTION
    ) -> None:
        """`of`: the connection of the cluster."""
        self._connection_id = of
        super().__init__(monkeypatch, "kafka_rebalance_cancel", ("cancel", "verify"), run_id, by)

    @property
    def document(self) -> dict[str, Any]:
        return json_files.read_json(self.folder, json_files.CANCEL)

    def fates(self) -> dict[str, str]:
        return {step["partition"]: step["fate"] for step in self.document["steps"]}

    def request(self, action: str, **params: Any) -> Any:
        return self.first_step(cancel_request.request, self._connection_id, {"action": action, **params})

    def answer(self, choice: str = "cancel_now", user: str = "uma", *, consent: str | None = None, **form: Any) -> None:
        """Of `approve`, or of `approve_rate`."""
        operator = self.ask()
        self.answer_to(operator, choice, user, **form, **({CONSENT: consent} if CONSENT in operator.params else {}))

    def approved(self) -> None:
        """Asked for, and approved by uma with the sentence that it asks for, if any."""
        self.request("cancel_now")
        self.answer(consent=self.document["consent"])

    def stop(self) -> dict[str, Any]:
        return run_step(stop_run, self.dag_run, str(self.folder))

    def set_throttle(self) -> dict[str, Any]:
        return run_step(set_throttle, self.dag_run, str(self.folder))

    def raise_throttle(self, rate: int) -> dict[str, Any]:
        """Asked for, approved by uma, and set."""
        assert self.request("set_throttle", throttle_bytes_per_second=rate)["next"] == "approve_rate"
        self.answer("set_throttle")
        return run_step(raise_throttle, self.dag_run, self.xcom["decision"])

    def elect_controller(self) -> dict[str, Any]:
        return run_step(controller_election.elect_controller, self.dag_run, self.xcom["decision"])

    def cancel(self) -> dict[str, Any]:
        return run_step(cancel_now, self.dag_run, self.xcom["decision"])

    def verify(self) -> dict[str, Any]:
        """verification.json; raises where a check failed."""
        run_step(verify, self.dag_run, self.xcom["decision"])
        return json_files.read_json(self.folder, json_files.VERIFICATION)
