"""How long a run's next moves may take, and whether they wait until a recurring window opens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.moves.eta import predicted_seconds, slowest_seconds
from kafka_rebalance.moves.windows import Window, pause_until
from kafka_rebalance.run.approval_rules import approval_ends
from kafka_rebalance.run.approved_plan import ApprovedPlan, ApprovedRequest
from kafka_rebalance.run.checks.batch_wait import Wait
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.ledger import ESTIMATE_FILE
from kafka_rebalance.throttle.lease_files import rate_in_force


def longest_seconds(plan: ApprovedPlan, moves: Sequence[Move]) -> float:
    """What these moves may take at once, at the slow end of the estimate. Every window holds them back by this."""
    estimate = ESTIMATE_FILE.read_if_there(plan.folder)
    ratios = estimate.ratios if estimate is not None else ()
    return slowest_seconds(predicted_seconds(moves, rate_in_force(plan.folder)), ratios)


def wait_for_window(
    deployment: Deployment, plan: ApprovedPlan, moves: Sequence[Move], *, is_paused: bool = False
) -> Wait | None:
    """What to wait for before these moves are requested at once; None: they may begin now, and end in their window.

    Raises StoppedError as `pause_until`, and StaleProposalError if the policy has changed.
    """
    if not plan.window.recurring:
        return None
    return wait_for_opening(deployment, plan, plan.window, longest_seconds(plan, moves), is_paused=is_paused)


def wait_for_opening(
    deployment: Deployment,
    approved: ApprovedPlan | ApprovedRequest[Any, Any],
    window: Window,
    seconds: float,
    *,
    is_paused: bool = False,
) -> Wait | None:
    """As `wait_for_window`, for what may take up to so many seconds."""
    policy = deployment.check_policy_unchanged(approved.connection_id, approved.decision.policy_digest)
    at = approved.decision.given_at
    begins_at = window.waits_until(at)
    ends = approval_ends(at, policy.approval_expires_after_seconds, not_before=begins_at)
    until = pause_until(window, seconds, clock.utc_now(), ends, is_paused=is_paused)
    return None if until is None else Wait(approved.connection_id, str(approved.folder), not_before=until)
