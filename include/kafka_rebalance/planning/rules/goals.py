"""What each kind of job asks of each candidate."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.model.settings import GIVEN, LEADERS_ALONE, LEADERS_ONLY, LIGHT, SEARCHED, Settings


@dataclass(frozen=True, slots=True)
class Goal:
    """What one candidate does."""

    tolerance: float
    moves_replicas: bool  # False: lists are re-ordered only
    repairs_racks: bool
    balances: bool  # beyond the moves that the job itself asks for
    all_leaders: bool  # False: only partitions that move anyway may get another leader
    one_sided: bool  # only brokers above the band give
    elects: bool  # preferred leaders of lists that stay are elected too
    to_limit: bool = False  # disks come below `relieve_above`, and nothing beyond that is balanced
    searched: bool = True  # False: the lists come from elsewhere, and promise no band


def candidate_names(settings: Settings) -> tuple[str, ...]:
    """The candidates to compute. Jobs `leaders` and `elect` have one answer of ours, so it is offered once."""
    asked = settings.candidates
    if settings.job == "elect":
        return (LEADERS_ONLY,)
    if settings.job == "leaders" and LEADERS_ONLY in asked:
        asked = tuple(name for name in asked if name == LEADERS_ONLY or name not in SEARCHED)
    return asked if settings.plan is None else (*asked, GIVEN)


def light_tolerance(settings: Settings) -> float:
    """The band of `light`: wide enough to cost clearly less than `balanced`, and never everything."""
    return min(0.5, 2 * settings.tolerance + 0.05)


def goal_of(settings: Settings, name: str) -> Goal:
    """`light` is what the job itself asks for (jobs without such moves: a wider band); `balanced` balances as well."""
    if name not in SEARCHED:
        return Goal(
            tolerance=settings.tolerance,
            moves_replicas=True,
            repairs_racks=False,
            balances=True,
            all_leaders=True,
            one_sided=False,
            elects=False,
            searched=False,
        )
    job, light = settings.job, name == LIGHT
    moves = name != LEADERS_ONLY and job not in LEADERS_ALONE
    balances = moves and (not light or job in ("balance", "relieve"))
    all_leaders = job != "elect" and ((balances and settings.relieve_above is None) or not moves)
    return Goal(
        tolerance=light_tolerance(settings) if light else settings.tolerance,
        moves_replicas=moves,
        repairs_racks=moves and job != "relieve" and (not light or job not in ("drain", "replace")),
        balances=balances,
        all_leaders=all_leaders,
        one_sided=job == "relieve",
        elects=all_leaders or job == "elect",
        to_limit=light and settings.relieve_above is not None,
    )
