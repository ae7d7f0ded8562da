"""A cluster on paper under a load that changes: what brokers' networks carry, and what a look at it shows.

Each broker carries its clients and the copies. Above what it can take, its clients wait, and answers grow with that:
as a queue's do, by 1 / (1 - use), up to a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafka_rebalance.documents.rate_steps import Memory, Reason
from kafka_rebalance.throttle.adaptive_rate import ShortPartition, Sight, choose

MB = 1_000_000
QUIET_ANSWER = 0.004  # seconds
Load = Callable[[float, int], float]  # (seconds, broker) -> share of its network that clients use


def answer_seconds(use: float) -> float:
    return QUIET_ANSWER / max(0.01, 1 - use)


@dataclass
class Outcome:
    """What happened at each second, and when rates changed."""

    seconds: float = 0.0
    uses: list[float] = field(default_factory=list)  # the highest share of a network in use, each second
    changes: list[tuple[float, int, int, int, tuple[Reason, ...]]] = field(default_factory=list)
    rates: list[dict[int, int]] = field(default_factory=list)  # each second
    waited: list[bool] = field(default_factory=list)  # whether new moves waited, each second

    def p99_answer(self) -> float:
        """Of the busiest broker, in seconds."""
        return answer_seconds(self.worst())

    def worst(self, share: float = 0.99) -> float:
        """The share of a network that is in use, at most, in this share of the seconds."""
        ordered = sorted(self.uses)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True)
class Curve:
    """`to_copy`: bytes that each broker has to receive. `network`: bytes a second that one can take."""

    load: Load
    to_copy: int
    network: int = 125 * MB
    brokers: tuple[int, ...] = (1, 2, 3, 4)
    short: Callable[[float], tuple[ShortPartition, ...]] = lambda _: ()
    slow: Callable[[float, int], float] = lambda at, broker: 1.0  # times its answers take longer for other reasons
    longest: int = 40_000  # seconds

    def use(self, at: float, broker: int, rate: int) -> float:
        return self.load(at, broker) + rate / self.network

    def at_one_rate(self, rate: int) -> Outcome:
        return self._run(lambda at, now: (dict.fromkeys(self.brokers, rate), (), False), rate)

    def with_rules(self, ladder: tuple[int, ...], look_seconds: int = 15) -> Outcome:
        memory, waits = Memory(), False

        def decide(at: float, now: Mapping[int, int]) -> tuple[dict[int, int], tuple, bool]:  # type: ignore[type-arg]
            nonlocal memory, waits
            if at % look_seconds:
                return dict(now), (), waits
            answers = {b: answer_seconds(self.use(at, b, now[b])) * self.slow(at, b) for b in self.brokers}
            sight = Sight(at=at, copying=frozenset(self.brokers), short=self.short(at), answers=answers)
            memory, chosen = choose(ladder, memory, sight, now)
            waits = chosen.waiting_for is not None
            changes = tuple((at, b, now[b], chosen.rates[b], why) for b, why in chosen.reasons.items())
            return dict(chosen.rates), changes, waits

        return self._run(decide, ladder[0])

    def _run(self, decide: Callable[..., tuple[dict[int, int], tuple, bool]], first: int) -> Outcome:  # type: ignore[type-arg]
        found, left = Outcome(), dict.fromkeys(self.brokers, float(self.to_copy))
        rates = dict.fromkeys(self.brokers, first)
        at = 0
        while any(rest > 0 for rest in left.values()) and at < self.longest:
            rates, changes, waits = decide(at, rates)
            found.changes += changes
            found.rates.append(dict(rates))
            found.waited.append(waits)
            copying = {broker: rates[broker] if left[broker] > 0 else 0 for broker in self.brokers}
            found.uses.append(max(self.use(at, broker, copying[broker]) for broker in self.brokers))
            for broker in self.brokers:
                left[broker] -= copying[broker]
            at += 1
        found.seconds = at
        return found
