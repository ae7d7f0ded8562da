"""The form of `kafka_rebalance_cancel`."""

from __future__ import annotations

from airflow.sdk import Param

from kafka_rebalance.cancel.actions import ACTIONS, STOP
from kafka_rebalance.workflow.form_fields import LARGEST_NUMBER, choice, cluster, optional, reason

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
