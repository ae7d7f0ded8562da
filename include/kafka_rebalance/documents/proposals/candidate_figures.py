"""What proposals.json says of one candidate, in small parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """One metric over the brokers that stay, as multiples of the share each should carry. 1, 1, 0 is even."""

    max_over_mean: float
    min_over_mean: float
    cv: float


@dataclass(frozen=True, slots=True)
class Scores:
    """By metric."""

    before: Mapping[str, Score]
    after: Mapping[str, Score]


@dataclass(frozen=True, slots=True)
class Range:
    """The lowest and the highest broker, as multiples of the fair share."""

    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class LessEven:
    """The metric in which a plan's end is most less even than the cluster is."""

    metric: str
    before: Range
    after: Range


@dataclass(frozen=True, slots=True)
class FurtherRuns:
    """An estimate of what it takes, beyond this run, until the cluster is within the tolerance."""

    runs: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MoveGroup:
    """Moves that take from one broker, or bring to it, in a sentence."""

    text: str
    moves: int
    bytes: int  # that they delete there, or bring


@dataclass(frozen=True, slots=True)
class WayBack:
    """What going back from the end takes, in the same batches; seconds of copying alone, None without a throttle."""

    bytes: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class HeldUpTopic:
    """A topic that can be neither expanded nor deleted while its batches run."""

    topic: str
    partitions: int
    first_batch: int
    last_batch: int


@dataclass(frozen=True, slots=True)
class HeldUp:
    """How many such topics there are, those of them that are Kafka's own, and those with most moves."""

    topics: int
    internal: tuple[str, ...]
    listed: tuple[HeldUpTopic, ...]
