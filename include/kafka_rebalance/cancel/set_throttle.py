"""`set_throttle` and `raise_throttle`: another rate for the copies of the run that holds the cluster, within seconds.

That is a rebalance, or a run between log dirs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kafka_rebalance.cancel import target_run
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ApprovalError
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.run.approved_plan import check_may_begin, decider, read_approved_request
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.run_folder import RunFolder, open_run_folder
from kafka_rebalance.throttle.change_rate import change_rate

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AskedRate:
    """What a person approves with a rate."""

    run: str
    candidate_digest: str
    cluster_id: str
    bytes_per_second: int

    @property
    def digest(self) -> str:
        return digest_of([self.run, self.candidate_digest, self.cluster_id, self.bytes_per_second])


def set_throttle(inputs: StepInputs, run_folder: str) -> dict[str, Any]:
    """Sets a rate up to the approved one. It needs no approval."""
    written, target = target_run.read_request(inputs, run_folder)
    inputs.deployment.check_policy_unchanged(written["connection_id"], written["policy_digest"])
    approved = target_run.approved_rate(target, written)
    if written["bytes_per_second"] > approved:
        raise ApprovalError(
            f"{written['bytes_per_second']} bytes/s is above the approved {approved} bytes/s of {written['run']}. "
            "Nothing was changed. Start a new run of kafka_rebalance_cancel, which asks for an approval."
        )
    return _change_rate(inputs, written, target, by=target_run.who(inputs.run))


def raise_throttle(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Sets a rate above the approved one. A person has approved this rate."""
    approved = read_approved_request(
        inputs,
        decision,
        json_files.CANCEL,
        lambda written: AskedRate(*(written[field.name] for field in fields(AskedRate))),
        lambda rate: f"The throttle of {rate.run}",
    )
    check_may_begin(inputs.deployment, approved)
    target = open_run_folder(inputs.deployment, approved.written["target_folder"])
    return _change_rate(inputs, approved.written, target, by=decider(approved.decision) or "somebody")


def _change_rate(inputs: StepInputs, written: Mapping[str, Any], target: RunFolder, *, by: str) -> dict[str, Any]:
    connection = inputs.deployment.read_connection(written["connection_id"])
    rate = int(written["bytes_per_second"])
    with open_cluster(connection) as cluster:
        if said := target_run.ended(inputs, cluster, written["run"], written["candidate_digest"]):
            return said
        cluster.check_same_cluster(cluster.read_view(()))
    change_rate(inputs.deployment, target, rate, by=by)
    log.info("%s: the throttle is now %d bytes/s per broker", written["run"], rate)
    return {"run": written["run"], "throttle_bytes_per_second": rate}
