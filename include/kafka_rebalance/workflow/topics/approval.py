"""A person approves one change of one topic, or rejects it. Creating one needs no approval: it takes nothing away."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.param import ParamsDict

from kafka_rebalance.documents import json_files
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.workflow.approval import DigestApprovalOperator, Offer, note_param
from kafka_rebalance.workflow.run.folder import RunFolder

if TYPE_CHECKING:
    from airflow.sdk import Context


class TopicApprovalOperator(DigestApprovalOperator):
    """Offers the change of topic.json. A dry run ends here."""

    def offer(self, folder: RunFolder) -> Offer:
        written = json_files.read_json(folder, json_files.TOPIC)
        return Offer(
            connection_id=written["connection_id"],
            policy_digest=written["policy_digest"],
            digests={written["change"]["action"]: written["digest"]},
            source_digest=digest_of(written),
            asked=written,
            nothing="This was a dry run. Nothing was written to the cluster." if written["dry_run"] else None,
        )

    def execute(self, context: Context) -> Any:
        folder = self._open(context)
        offer = self.offer(folder)
        if offer.nothing is not None or json_files.read_json(folder, json_files.TOPIC)["needs_approval"]:
            return super().execute(context)
        policy = self._policy(offer)
        assert policy is not None  # `request` refuses to go on without one, and it has not changed
        ((choice, digest),) = offer.digests.items()
        decision = {
            "choice": choice,
            "digest": digest,
            "policy_digest": policy.digest,
            "approved_by": None,
            "approved_at": datetime.now(UTC).isoformat(),
            "note": "",
        }
        self._decide(context, folder, offer, decision)
        return None

    def form(self, folder: RunFolder, policy: Policy) -> ParamsDict:
        return ParamsDict({"note": note_param()})

    def texts(self, folder: RunFolder, dag_run: Any) -> tuple[str, str]:
        from kafka_rebalance.report.requests.topic_change import (  # heavy, and read with the Dag
            approval_body,
            approval_subject,
        )

        written = json_files.read_json(folder, json_files.TOPIC)
        found = json_files.read_json_if_there(folder, json_files.FORECAST)
        return approval_subject(written), approval_body(written, found)
