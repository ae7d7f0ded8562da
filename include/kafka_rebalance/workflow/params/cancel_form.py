"""The form of `kafka_rebalance_cancel`."""

from __future__ import annotations

from airflow.sdk import Param

from kafka_rebalance.steps.cancel.actions import ACTIONS, STOP

CANCEL_PARAMS: dict[str, Param] = {
    "kafka_conn_id": Param(
        "kafka_default", type="string", minLength=1, title="Cluster", description="Airflow connection of the cluster."
    ),
    "action": Param(
        STOP,
        type="string",
        enum=list(ACTIONS),
        title="Action",
        description="stop_after_batch: request no further batch. cancel_now: give up copies in flight, after an "
        "approval that shows what it costs. roll_back: start a run back to the recorded lists, with an approval of its "
        "own. set_throttle: give running copies another rate; a rate above the approved one needs an approval. "
        "elect_controller: have another broker become controller, after an approval. It reads a request anew that "
        "does not end. This needs no running rebalance.",
    ),
    "throttle_bytes_per_second": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        title="Throttle (bytes/s per broker)",
        description="The new rate for set_throttle, within the policy's range.",
    ),
    "run_id": Param(
        None,
        type=["null", "string"],
        title="Run",
        description="The run of kafka_rebalance to go back from, for roll_back. Empty: the run that began last.",
    ),
    "reason": Param(
        None, type=["null", "string"], title="Reason", description="Why you ask for it. The approver reads this."
    ),
}
