"""Which candidate a proposal recommends, and why: kinds and figures, from which `report` makes sentences."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Why(StrEnum):
    """Why a candidate is recommended, or why none is."""

    CHEAPEST = "cheapest_within_tolerance"
    FEWEST_BYTES = "fewest_bytes_preferred"
    NEAREST = "nearest_to_tolerance"
    GIVEN_ALONE = "only_the_given_plan_changes_anything"
    NOTHING_CHANGES = "nothing_changes"
    WITHIN_ALREADY = "cluster_is_within_tolerance"
    NOT_POSSIBLE = "job_not_possible"
    FAILED = "candidates_failed"
    NOTHING_NEARER = "nothing_is_nearer"
    GIVEN_IS_LESS_EVEN = "given_plan_is_less_even"
    GIVEN_FALLS_SHORT = "given_plan_does_not_do_the_job"
    UNKNOWN = ""  # a reason of another version

    @classmethod
    def _missing_(cls, value: object) -> Why:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Furthest:
    """How far the worst broker is from its share, as a fraction of this share."""

    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Beside:
    """Another candidate: what it copies, and how far the worst broker then is from its share, as a fraction of it."""

    candidate: str
    bytes: int
    furthest: float


@dataclass(frozen=True, slots=True)
class Recommendation:
    """`candidate` is None if none is recommended."""

    candidate: str | None
    why: Why
    tolerance: float
    furthest: Furthest | None = None
    undone: int = 0  # replicas, partitions or disks for which the job is not done
    rack_violations: int = 0
    cheaper: Beside | None = None  # the next one that copies fewer bytes
    more_even: Beside | None = None  # the next one with the worst broker nearer to its share
