"""A person approves one change of one topic, or rejects it. A creation needs no approval: it removes nothing."""

from __future__ import annotations

from kafka_rebalance.documents import json_files
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.run.approval_request import Approval, Offer, RunLinks
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.topics.topic_change import approval_body, approval_subject
from kafka_rebalance.topics.topic_request import needs_approval


class TopicApproval(Approval):
    """Offers the change of topic.json. A dry run ends here."""

    behind = ("write", "verify")
    shown = (json_files.TOPIC, json_files.FORECAST)

    def offer(self, folder: RunFolder) -> Offer:
        written = json_files.read_json(folder, json_files.TOPIC)
        return Offer(
            connection_id=written["connection_id"],
            policy_digest=written["policy_digest"],
            digests={written["change"]["action"]: written["digest"]},
            source_digest=digest_of(written),
            asked=written,
            nothing="This was a dry run. Nothing was written to the cluster." if written["dry_run"] else None,
            needs_answer=needs_approval(written["change"]["action"]),  # whatever else the file says: people can edit it
        )

    def texts(self, folder: RunFolder, links: RunLinks) -> tuple[str, str]:
        written = json_files.read_json(folder, json_files.TOPIC)
        forecast = json_files.read_json_if_there(folder, json_files.FORECAST)
        return approval_subject(written), approval_body(written, forecast)
