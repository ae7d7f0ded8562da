"""Whether what was approved in a run of `kafka_rebalance_cancel` may be begun now."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kafka_rebalance.execution.approval_rules import check_approval_fresh, check_policy_unchanged
from kafka_rebalance.workflow.run.folder import RunFolder, check_newest_attempt
from kafka_rebalance.workflow.run.policies import read_policy


def check_may_begin(folder: RunFolder, connection_id: str, given: Mapping[str, Any]) -> None:
    """Raises ApprovalError for an approval that has grown too old, RunFolderError for one of an earlier attempt,
    StaleProposalError where the policy has changed since.
    """
    policy = read_policy(connection_id)
    check_policy_unchanged(given["policy_digest"], policy.digest if policy else None)
    assert policy is not None  # or the digests could not be the same
    check_newest_attempt(folder)
    check_approval_fresh(given["approved_at"], policy.approval_expires_after_seconds, datetime.now(UTC))
