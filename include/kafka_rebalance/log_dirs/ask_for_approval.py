"""A person approves one plan of moves between log dirs, or rejects it."""

from __future__ import annotations

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE
from kafka_rebalance.log_dirs.request_words import approval_body, approval_subject
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.run.approval_request import Approval, Offer, RunLinks
from kafka_rebalance.run.run_folder import RunFolder


class LogDirApproval(Approval):
    """Offers the plan of log_dirs.json."""

    behind = ("hold_rate", "move", "release_rate", "verify")
    shown = (json_files.LOG_DIRS,)

    def offer(self, folder: RunFolder) -> Offer:
        written = json_files.read_json(folder, json_files.LOG_DIRS)
        plan = LOG_DIRS_FILE.decode(written).plan
        return Offer(
            connection_id=written["connection_id"],
            policy_digest=written["policy_digest"],
            digests={plan.job: plan.digest},
            source_digest=digest_of(written),
            asked=written,
        )

    def texts(self, folder: RunFolder, links: RunLinks) -> tuple[str, str]:
        written = LOG_DIRS_FILE.read(folder)
        return approval_subject(written), approval_body(written)
