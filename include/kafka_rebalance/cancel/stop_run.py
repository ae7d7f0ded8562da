"""`stop`: lets the running rebalance request no further batch."""

from __future__ import annotations

import logging
from typing import Any

from kafka_rebalance.cancel import target_run
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.stop_requests import ask_stop

log = logging.getLogger(__name__)


def stop_run(inputs: StepInputs, run_folder: str) -> dict[str, Any]:
    """Returns what remains undone, as `request` has seen it."""
    written, target = target_run.read_request(inputs, run_folder)
    with open_cluster(inputs.deployment.read_connection(written["connection_id"])) as cluster:
        if said := target_run.ended(inputs, cluster, written["run"], written["candidate_digest"]):
            return said
        asked = ask_stop(target, target_run.who(inputs.run))
        # Only now: a worker that has read the old control.json can no longer request a batch.
        cluster.stop_requests()
    log.info("%s stops after the current batch. %s asked for it.", written["run"], asked.stop_after_batch)
    return {"run": written["run"], **written["remaining"]}
