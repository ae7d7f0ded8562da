"""rate_steps.json: how a run with a range of rates has changed the rates of brokers, and what its next look must know.

Rates are in bytes per second, times in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kafka_rebalance.documents.json_files import RATE_STEPS, JsonFile, Time, omitted


class Sign(StrEnum):
    """What a look at the cluster shows. `throttle.adaptive_rate.RULES` says what each asks for."""

    UNDER_MIN_ISR = "under_min_isr"
    AT_MIN_ISR = "at_min_isr"
    ISR_UNREAD = "isr_unread"
    FELL_OUT = "fell_out"  # replicas have left the ISR since the last look
    UNDER_REPLICATED = "under_replicated"
    NO_ANSWER = "no_answer"
    SLOW_ANSWER = "slow_answer"
    FULL_NETWORK = "full_network"
    SLOW_PRODUCE = "slow_produce"
    LAG_GROWS = "lag_grows"
    UNREAD = "unread"
    IDLE = "idle"  # the broker copies nothing now, so that a look shows nothing of what its copies cost
    SETTLING = "settling"  # the rate has just fallen
    PROBED = "probed"  # the next rate was too high a short time ago
    CALM = "calm"


@dataclass(frozen=True, slots=True)
class Reason:
    """A sign with its figures. `figure`: partitions, seconds, a share or records; `usual`: what it is held against.

    `what`: the first partition, the group, or what could not be read.
    """

    sign: Sign
    figure: float | None = omitted()
    usual: float | None = omitted()
    broker: int | None = omitted()
    what: str = omitted("")


@dataclass(frozen=True, slots=True)
class RateStep:
    """These brokers got another rate, from the same one and for the same reasons."""

    at: Time
    brokers: tuple[int, ...]
    before: int
    after: int
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class BrokerPace:
    """What the rules remember of one broker."""

    broker: int
    settle: int = 0  # looks that show nothing, for which it keeps its rate after a fall
    ceiling: int | None = None  # the rate at which load was seen, which it does not get again before:
    ceiling_until: float = 0.0  # seconds since 1970
    ceiling_seconds: float = 0.0  # how long that is
    answers: tuple[float, ...] = ()  # of the looks at which it was quiet
    latencies: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupPast:
    """A group's lag at the last looks at which it has grown, the newest last. `quiet`: the most while it was quiet."""

    group: str
    committed: int
    looks: tuple[int, ...]
    quiet: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What a look leaves for the next one."""

    looked_at: float | None = None  # seconds since 1970
    cost_seconds: float = 0.0  # of the last look
    behind: tuple[tuple[int, int], ...] = ()  # (broker, its replicas that were out of the ISR)
    paces: tuple[BrokerPace, ...] = ()
    groups: tuple[GroupPast, ...] = ()


@dataclass(frozen=True, slots=True)
class RateSteps:
    given_up: tuple[int, ...]  # brokers whose replicas may be out of the ISR, because the plan takes them away
    memory: Memory = field(default_factory=Memory)
    steps: tuple[RateStep, ...] = ()  # the newest, the earliest first
    held_by: tuple[Reason, ...] = ()  # why the last look raised nothing


RATE_STEPS_FILE = JsonFile(RATE_STEPS, RateSteps)
