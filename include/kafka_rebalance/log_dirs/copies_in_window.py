"""How much a broker can copy between its log dirs before a window of the policy closes."""

from __future__ import annotations

from datetime import datetime
from math import inf

from kafka_rebalance.documents.log_dir_plan import LogDirPlan
from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.amounts_in_words import duration_in_words
from kafka_rebalance.model.recurring_window import openings
from kafka_rebalance.moves.eta import slowest_seconds
from kafka_rebalance.moves.time_window import Window, read_window


def window_of(plan: LogDirPlan) -> Window:
    return read_window({"recurring": plan.windows})


def seconds_at_most(size_bytes: int, bytes_per_second: int) -> float:
    """What a copy of so many bytes may take, at the slow end of the estimate, if its broker copies nothing else."""
    return slowest_seconds(size_bytes / bytes_per_second, ())


def bytes_in_time(window: Window, bytes_per_second: int, now: datetime) -> float:
    """What each broker copies from now on until the window closes, even at the slow estimate; 0 while it is closed."""
    if not window.recurring:
        return inf
    opening = next(openings(window.recurring, now), None)
    if opening is None or now < opening.opens_at:
        return 0.0
    return (opening.closes_at - now).total_seconds() * bytes_per_second / slowest_seconds(1.0, ())


def check_fits_openings(plan: LogDirPlan, now: datetime) -> None:
    """Raises PlanningError if a copy would end in no opening of the windows."""
    window = window_of(plan)
    if not window.recurring:
        return
    largest = max(plan.moves, key=lambda move: (move.size_bytes, move.replica))
    seconds = seconds_at_most(largest.size_bytes, plan.throttle_bytes_per_second)
    if window.room_for(seconds, now) is None:
        longest = max((one.seconds for one in openings(window.recurring, now)), default=0.0)
        raise PlanningError(
            f"The copy of {largest.replica} may take up to {duration_in_words(seconds)}, and the policy's windows "
            f"({'; '.join(plan.windows)}) are open for {duration_in_words(longest)} at most. Nothing was written. Ask "
            "for a higher throttle, or tick outside_windows."
        )
