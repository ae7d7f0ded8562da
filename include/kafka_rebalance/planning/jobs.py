"""What each kind of job asks of each candidate."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.model.settings import Settings


@dataclass(frozen=True, slots=True)
class Goal:
    """What one candidate does."""

    tolerance: float
    moves_replicas: bool  # False: lists are re-ordered only
    repairs_racks: bool
    balances: bool  # beyond the moves that the job itself asks for
    all_leaders: bool  # False: only partitions that move anyway may get another leader
    one_sided: bool  # only brokers above the band give


def candidate_names(settings: Settings) -> tuple[str, ...]:
    """The candidates to compute. Job `leaders` has one answer, so it is offered once."""
    if settings.job == "leaders" and "leaders_only" in settings.candidates:
        return ("leaders_only",)
    return settings.candidates


def light_tolerance(settings: Settings) -> float:
    """The band of `light`: wide enough to cost clearly less than `balanced`, and never everything."""
    return min(0.5, 2 * settings.tolerance + 0.05)


def goal_of(settings: Settings, name: str) -> Goal:
    """`light` is what the job itself asks for (jobs without such moves: a wider band); `balanced` balances as well."""
    job, light = settings.job, name == "light"
    moves = name != "leaders_only" and job != "leaders"
    balances = moves and (not light or job in ("balance", "relieve"))
    return Goal(
        tolerance=light_tolerance(settings) if light else settings.tolerance,
        moves_replicas=moves,
        repairs_racks=moves and job != "relieve" and (not light or job not in ("drain", "replace")),
        balances=balances,
        all_leaders=balances or not moves,
        one_sided=job == "relieve",
    )
