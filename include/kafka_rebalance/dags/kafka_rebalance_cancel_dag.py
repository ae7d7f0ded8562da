"""`kafka_rebalance_cancel`: stops, cancels or throttles a running rebalance, undoes the last, or elects a controller.

It finds the running rebalance by the cluster's lock. `cancel_now` waits for a person's approval, and so does a throttle
above the approved one. `roll_back` starts a run of `kafka_rebalance`, which asks for its own approval.
`elect_controller` waits for an approval too. It helps with a request that does not end. It needs no running rebalance.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Param, XComArg, dag, task

from kafka_rebalance.cancel.cancel_file import ACTIONS, STOP
from kafka_rebalance.workflow.form_fields import LARGEST_NUMBER, STARTED_BY_PEOPLE, choice, cluster, optional, reason
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.run_step import run_step

# The form of `kafka_rebalance_cancel`.


CANCEL_PARAMS: dict[str, Param] = {
    "kafka_conn_id": cluster(),
    "action": choice(
        ACTIONS,
        STOP,
        "Action",
        "stop_after_batch: request no further batch. cancel_now: give up copies in flight. Its approval shows what "
        "this costs. roll_back: start a run back to the recorded lists. That run asks for its own approval. "
        "set_throttle: give running copies another rate. A rate above the approved one needs an approval. "
        "elect_controller: for a request that does not end. After an approval another broker becomes controller and "
        "reads the request again. This needs no running rebalance.",
    ),
    "throttle_bytes_per_second": optional(
        "integer",
        "Throttle (bytes/s per broker)",
        "The new rate for set_throttle, within the policy's range.",
        minimum=1,
        maximum=LARGEST_NUMBER,
    ),
    "run_id": optional(
        "string", "Run", "For roll_back: the run of kafka_rebalance to undo. Empty: the run that began last."
    ),
    "reason": reason(),
}


APPROVAL = "kafka_rebalance.cancel.request.CancelApproval"


@dag(
    dag_id="kafka_rebalance_cancel",
    description="Stop, cancel or throttle a running rebalance, roll the last one back, or elect a controller.",
    params=CANCEL_PARAMS,
    doc_md=__doc__,
    **STARTED_BY_PEOPLE,
)
def rebalance_cancel() -> None:
    @task(retries=2)
    def request(params: Any = None, dag_run: Any = None, ti: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.cancel.request.request", dag_run, params, ti=ti)

    @task.branch(retries=2)
    def route(asked: dict[str, Any]) -> str:
        """The task of the requested action; Airflow skips all others."""
        return str(asked["next"])

    @task(retries=2)
    def stop(run_folder: str, dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.cancel.cancel_now.stop_run", dag_run, run_folder)

    @task(retries=2)
    def set_throttle(run_folder: str, dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.cancel.set_throttle.set_throttle", dag_run, run_folder)

    @task(retries=2)
    def raise_throttle(decision: dict[str, Any], dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.cancel.set_throttle.raise_throttle", dag_run, decision)

    @task(retries=5, retry_exponential_backoff=2, max_retry_delay=timedelta(minutes=5))
    def cancel(decision: dict[str, Any], dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.cancel.cancel_now.cancel_now", dag_run, decision)

    @task(retries=3)
    def verify(decision: dict[str, Any], dag_run: Any = None) -> dict[str, int]:
        return run_step("kafka_rebalance.cancel.cancel_now.verify", dag_run, decision)

    @task(retries=3)
    def elect_controller(decision: dict[str, Any], dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.cancel.elect_controller.elect_controller", dag_run, decision)

    asked = request()
    run_folder = XComArg(asked.operator, key="run_folder")
    nonce = XComArg(asked.operator, key="nonce")
    asked_of: dict[str, Any] = {"approval": APPROVAL, "run_folder": run_folder, "nonce": nonce}
    routed = route(asked)
    approved = ApprovalOperator(task_id="approve", **asked_of)
    decision = XComArg(approved, key="decision")
    rate_approved = ApprovalOperator(task_id="approve_rate", **asked_of)
    election_approved = ApprovalOperator(task_id="approve_election", **asked_of)
    back = TriggerDagRunOperator(
        task_id="roll_back", trigger_dag_id="kafka_rebalance", conf=XComArg(asked.operator, key="conf")
    )

    routed >> [stop(run_folder), set_throttle(run_folder), approved, rate_approved, election_approved, back]
    approved >> cancel(decision) >> verify(decision)
    election_approved >> elect_controller(XComArg(election_approved, key="decision"))
    rate_approved >> raise_throttle(XComArg(rate_approved, key="decision"))


DAG = rebalance_cancel()
