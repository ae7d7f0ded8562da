"""One run of `kafka_topics` without Airflow's processes: the tasks' own functions and the real approval operator.

The cluster is real. Simulated are Airflow's XCom and the person who answers; the Spark job that samples keys has tests
of its own.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.topics import keys, plan, write
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.run_step import run_step
from support.runs.asked_run import AskedRun
from support.runs.rebalance_run import set_up_airflow

CONNECTION = "kafka_topics_run"
POLICY = "approvers: [uma]\n"
_NUMBERS = itertools.count(1)


class TopicRun(AskedRun):
    approval = "kafka_rebalance.topics.request.TopicApproval"

    def __init__(
        self, folder: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, policy: str = POLICY
    ) -> None:
        set_up_airflow(monkeypatch, folder, cluster, CONNECTION, policy)
        run_id = f"run-{next(_NUMBERS)}"  # a run of its own, not a later attempt of the one before
        super().__init__(monkeypatch, "kafka_topics", ("write", "verify"), run_id, "olive")

    @property
    def change(self) -> dict[str, Any]:
        return json_files.read_json(self.folder, json_files.TOPIC)["change"]

    def request(self, **params: Any) -> Any:
        return self.first_step(plan.request, CONNECTION, {"sample_rows": 0, **params})

    def ask(self) -> ApprovalOperator:
        run_step(keys.forecast, self.dag_run, str(self.folder))
        return super().ask()

    def answer(self, choice: str = "", user: str = "uma", **form: Any) -> None:
        self.answer_to(self.operator or self.ask(), choice, user, **form)

    def write(self) -> dict[str, Any]:
        return run_step(write.write_change, self.dag_run, self.xcom["decision"])

    def verify(self) -> dict[str, int]:
        return run_step(write.verify, self.dag_run, self.xcom["decision"])

    def carry_out(self, **params: Any) -> dict[str, Any]:
        """From the request to the verification, approved by uma; returns verification.json."""
        asked = self.request(**params)
        assert asked["next"] != plan.END
        self.ask()
        if "decision" not in self.xcom:
            self.answer(params["action"])
        self.write()
        self.verify()
        return json_files.read_json(self.folder, json_files.VERIFICATION)
