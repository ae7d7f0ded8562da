"""What each job asks of each candidate."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.model.settings import (
    GIVEN,
    LEADERS_ALONE,
    LEADERS_ONLY,
    LIGHT,
    REPLACE_LOG_DIR,
    SEARCHED,
    Settings,
)


@dataclass(frozen=True, slots=True)
class Goal:
    """What one candidate aims at."""

    tolerance: float
    moves_replicas: bool  # False: lists only change their order
    repairs_racks: bool
    balances: bool  # beyond the moves that the job requires
    all_leaders: bool  # False: only partitions that move may get another leader
    one_sided: bool  # only brokers above the band give
    elects: bool  # also elects the preferred leaders of lists that stay
    to_limit: bool = False  # only brings disks below `relieve_above`
    spreads_topics: bool = False  # of `spread_topics`
    searched: bool = True  # False: the lists come from elsewhere, and promise no band


def candidate_names(settings: Settings) -> tuple[str, ...]:
    """The candidates to compute. Jobs `leaders`, `elect` and `replace_log_dir` have only one searched candidate."""
    asked = settings.candidates
    if settings.job == "elect":
        return (LEADERS_ONLY,)
    if settings.job == "leaders" and LEADERS_ONLY in asked:
        asked = tuple(name for name in asked if name == LEADERS_ONLY or name not in SEARCHED)
    if settings.job == REPLACE_LOG_DIR and LIGHT in asked:
        asked = tuple(name for name in asked if name == LIGHT or name not in SEARCHED)
    return asked if settings.plan is None else (*asked, GIVEN)


def goal_of(settings: Settings, name: str) -> Goal:
    """`light` makes the moves that the job requires, or has a wider band if there are none. `balanced` balances too."""
    if name not in SEARCHED:
        return Goal(settings.tolerance, True, False, True, True, one_sided=False, elects=False, searched=False)
    job, light = settings.job, name == LIGHT
    moves = name != LEADERS_ONLY and job not in LEADERS_ALONE
    balances = moves and (not light or job in ("balance", "relieve"))
    all_leaders = job != "elect" and ((balances and settings.relieve_above is None) or not moves)
    # The band of `light` is wide enough to cost clearly less than `balanced`, but never covers everything.
    wider = min(0.5, 2 * settings.tolerance + 0.05)
    return Goal(
        tolerance=wider if light else settings.tolerance,
        moves_replicas=moves,
        repairs_racks=moves and job != "relieve" and (not light or job not in ("drain", "replace", REPLACE_LOG_DIR)),
        balances=balances,
        all_leaders=all_leaders,
        one_sided=job == "relieve",
        elects=all_leaders or job == "elect",
        to_limit=light and settings.relieve_above is not None,
        spreads_topics=moves and bool(settings.spread_topics) and job not in ("relieve", REPLACE_LOG_DIR),
    )
