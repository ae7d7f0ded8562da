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
        description="stop_after_batch: no further batch. cancel_now: copies in flight are given up, after an approval "
        "that shows what it costs. roll_back: a new run back to the lists recorded before, with an approval of its "
        "own. set_throttle: another rate for the copies of the running rebalance; above the approved one, after an "
        "approval. elect_controller: another broker becomes controller, and reads a request anew that does not end; "
        "after an approval. It needs no running rebalance.",
    ),
    "throttle_bytes_per_second": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        title="Throttle (bytes/s per broker)",
        description="For set_throttle, within the policy's range.",
    ),
    "run_id": Param(
        None,
        type=["null", "string"],
        title="Run",
        description="For roll_back: the run of kafka_rebalance to go back from. Empty is the one that began last.",
    ),
    "reason": Param(None, type=["null", "string"], title="Reason", description="Why; shown to the approver."),
}
