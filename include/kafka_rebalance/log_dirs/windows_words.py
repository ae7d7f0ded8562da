"""Which windows of the policy the copies between log dirs take."""

from __future__ import annotations

from kafka_rebalance.documents.log_dir_plan import PlannedLogDirs
from kafka_rebalance.log_dirs.copies_in_window import seconds_at_most, window_of
from kafka_rebalance.moves.window_fit import fit
from kafka_rebalance.pages.units import format_count, format_time


def windows_words(planned: PlannedLogDirs) -> str:
    """Empty if the policy has no windows."""
    plan, now, named = planned.plan, planned.observed_at, "; ".join(planned.policy_windows)
    if not plan.windows:
        return f"The copies begin at once after the approval, outside the policy's windows ({named})." if named else ""
    window = window_of(plan)
    opens, closes = window.waits_until(now), window.closes_at(now)
    state = f"It opens at {format_time(opens)}" if opens is not None else f"It is open until {format_time(closes)}"
    # A broker's copies share its rate, so they take as long as one after the other.
    busiest = max(plan.brokers, key=lambda broker: sum(move.size_bytes for move in plan.moves if move.broker == broker))
    rate = plan.throttle_bytes_per_second
    seconds = [seconds_at_most(move.size_bytes, rate) for move in plan.moves if move.broker == busiest]
    found = fit(window, seconds, now)
    fate = (
        f"All copies may take {format_count(len(found.used), 'opening', 'openings')}, and end by "
        f"{format_time(found.ends_at)} even at the slow estimate"
        if found.ends_at is not None
        else f"No opening has room for the copy after the first {found.placed}"
    )
    return (
        f"Copies begin and end in the policy's windows ({named}). {state}. {fate}. Between two openings the "
        "run keeps the cluster's lock and no rate. The approval must last until the next one opens."
    )
