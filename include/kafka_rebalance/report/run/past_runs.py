"""When a rebalance will be over, by what earlier ones of the cluster took: estimate.json, and its words."""

from __future__ import annotations

from kafka_rebalance.documents.estimate import Estimate
from kafka_rebalance.execution.eta import ASSUMED, MIN_SECONDS, eta_range
from kafka_rebalance.report.units import format_count, format_range


def finishes_in(estimate: Estimate, seconds: float | None) -> str:
    """Of a plan that takes that long by itself: `38–52 min, from 12 runs here`; empty where nothing can be said."""
    if seconds is None or seconds < MIN_SECONDS:
        return ""
    found = eta_range(seconds, estimate.ratios)
    runs = format_count(found.runs, "run", "runs")
    if found.is_measured:
        return f"{format_range(found.low, found.high)}, from {runs} here"
    few = f"{runs} here {'is' if found.runs == 1 else 'are'} too few to tell"
    low, high = ASSUMED
    return f"{format_range(found.low, found.high)}, assumed at {low}–{high} times the plan: {few}"
