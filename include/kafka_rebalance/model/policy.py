"""The reviewed file of one cluster: who may approve, and how much may move. A request can only tighten it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from kafka_rebalance.errors import PolicyError
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.finding import listed
from kafka_rebalance.model.recurring_window import read_recurring_window
from kafka_rebalance.model.settings import (
    COPIES_PER_BROKER,
    FEWEST_BYTES,
    LEAST_PARTITIONS_PER_BATCH,
    LESS_EVEN_PLANS,
    LOSSES,
    OFFER,
    PREFERENCES,
    RACKLESS,
    REFUSE,
    SURVIVE_RACK,
    TOLERANCE,
    BrokerPool,
    Settings,
    broker_pools,
    copies_limit,
    partitions_per_batch,
)
from kafka_rebalance.model.value_readers import (
    flag,
    globs,
    integer,
    names,
    number_reader,
    one_of,
    plain_values,
    read_values,
)

TIB = 1024**4
YEAR_SECONDS = 366 * 86_400
LONG_PAUSE_SECONDS = 3600
MOST_WINDOWS = 50
LEDGER_DAYS = 90  # at least: a run looks so far back for rejected proposals, growth and earlier durations
STOP, LEAVE_OUT = "stop", "leave_out"
_NAME, RECEIVE_NOTHING = SLOW_BROKERS = ("name", "receive_nothing")


def _both(own: tuple[Any, ...] | None, other: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """What either names; None if both leave it open."""
    return own if other is None else tuple(dict.fromkeys((*(own or ()), *other)))


def _either(own: bool | None, other: bool | None) -> bool | None:
    return True if other else own


def _larger_loss(own: str | None, other: str | None) -> str | None:
    return SURVIVE_RACK if SURVIVE_RACK in (own, other) else own or other


def _once(value: str) -> Callable[[str, str], str]:
    """This value if either of two has it."""
    return lambda own, other: value if value in (own, other) else own


# How two values of a key become the one that both allow: of a request and the policy, or of two policies.
STRICTER: dict[str, Callable[[Any, Any], Any]] = {
    "max_bytes_share": min,
    "max_bytes": min,
    "leader_changes_per_batch": min,
    "partitions_per_topic": min,
    "replicas_per_broker": min,
    "min_throttle_bytes_per_second": max,
    "max_throttle_bytes_per_second": min,
    "topics_out": _both,
    "pinned_topics": _both,
    "rack_pinned_topics": _both,
    "spread_leaders": _both,
    "spread_topics": _both,
    "leader_racks": lambda own, other: own if other is None else other,
    "survive": _larger_loss,
    "brokers_out": lambda own, other: tuple(sorted({*own, *other})),
    "internal_topics": min,
    "even_at_worst_hour": _either,
    "copies_within_racks": _either,
    "prefer": _once(FEWEST_BYTES),
    "less_even_plan": _once(REFUSE),
}
# Of these, what counts for the nightly check too: where replicas may go, and what is measured.
_OF_PLACES_AND_LOADS = (
    "topics_out",
    "pinned_topics",
    "rack_pinned_topics",
    "brokers_out",
    "even_at_worst_hour",
    "leader_racks",
)
_OF_A_PLAN = (
    *_OF_PLACES_AND_LOADS,
    "spread_leaders",
    "spread_topics",
    "survive",
    "copies_within_racks",
    "leader_changes_per_batch",
    "prefer",
    "less_even_plan",
)


@dataclass(frozen=True, slots=True)
class Approver:
    """A user of Airflow's auth manager. In the Simple auth manager, id and name are the same; in FAB they differ."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Policy:
    """`include/policies/<connection id>.yaml`. A cluster without this file is read-only."""

    approvers: tuple[Approver, ...]  # who may approve: users of Airflow's auth manager
    requester_may_approve: bool = False  # whether the person who asks for a run may approve it
    cancel_needs_another_approver: bool | None = None  # also if an approver asks for `cancel_now`; None: no
    demote_approves_give_back: bool | None = (
        None  # who approves a demote approves giving leadership back too, and reads so; None: no
    )
    max_bytes_share: float = 0.10  # that one run may copy, of the bytes that the cluster holds
    max_bytes: int = 2 * TIB  # that one run may copy; the smaller limit counts
    leader_changes_per_batch: int = 1000  # at most
    partitions_per_batch: int = 0  # at most; 0: as many as there are brokers, and at least 250
    copies_per_broker: int = 0  # replicas that one broker sends or receives at once; 0: 10, up to 20 if that is faster
    partitions_per_topic: int = 1000  # `kafka_topics` creates no larger topic
    replicas_per_broker: int = 4000  # no run and no `kafka_topics` brings a broker beyond it
    min_throttle_bytes_per_second: int = 1_000_000  # no one may go below
    max_throttle_bytes_per_second: int = 100_000_000  # no one may go above; a run that names none gets it
    topics_out: tuple[str, ...] = ()  # globs; never moved
    pinned_topics: tuple[str, ...] = ()  # globs: replicas stay on their brokers; the order of a list may change
    rack_pinned_topics: tuple[str, ...] = ()  # globs: a replica moves only to brokers of its own rack
    spread_leaders: tuple[str, ...] | None = (
        None  # globs: leaders of these topics spread evenly, for further leader changes; None: of none
    )
    spread_topics: tuple[str, ...] | None = (
        None  # globs: replicas of these topics spread evenly, for further bytes; None: of none
    )
    leader_racks: tuple[str, ...] | None = None  # leaders are in these racks where the lists allow it; None: in any
    survive: str | None = (
        None  # broker or rack: no loss of one leaves a disk too full, or a network too busy; None: no rule
    )
    broker_pools: tuple[BrokerPool, ...] | None = (
        None  # topics that only these brokers hold, and nothing else; None: no
    )
    brokers_out: tuple[int, ...] = ()  # neither emptied nor filled
    rackless_brokers: str = REFUSE  # if others have a rack: refuse to plan, or count them together as one_rack
    more_replicas_than_racks: bool | None = None  # allowed, and then spread as evenly as the racks allow; None: no
    even_at_worst_hour: bool | None = None  # plans and the nightly check use bytes in of the worst hour; None: no
    cordon_leaving: bool | None = None  # Kafka puts no new replica on a broker while a run empties it; None: no
    copies_within_racks: bool | None = None  # bytes between racks count twice in the search; None: no
    internal_topics: bool = False  # whether a run may move Kafka's own topics, such as `__consumer_offsets`
    approval_expires_after_seconds: int = 86_400  # if nobody has answered, or if the first write comes later
    on_conflict: str = STOP  # if partitions are no longer as approved: `stop`, or `leave_out` these
    growth_limit: float = (
        0.25  # of the approved bytes; if they grow more before the first write, somebody must approve again
    )
    beside_cruise_control: bool = False  # whether a run may write while Cruise Control works on the cluster
    prefer: str = TOLERANCE  # recommend the cheapest within `tolerance`; fewest_bytes: the cheapest that does the job
    less_even_plan: str = OFFER  # offer or refuse a given plan that ends less even than the cluster is
    broker_away_after_seconds: int = 172_800  # after this absence the nightly check proposes to go on without a broker
    long_pause_seconds: int = LONG_PAUSE_SECONDS  # if a batch waits longer, the run alerts and puts the throttle back
    slow_brokers: str | None = (
        None  # of brokers that copy slowly again and again: `name` them, or they `receive_nothing`; None: name
    )
    imbalance_limit: float = 0.20  # above this share of the mean, the nightly check proposes a rebalance
    windows: tuple[str, ...] | None = None  # in which a run that asks for no other time moves partitions; None: always
    price_per_gb_between_racks: float | None = (
        None  # of 10⁹ bytes copied to another rack, in your currency; None: unsaid
    )
    keep_runs_days: int | None = None  # `kafka_ledger` removes the files of older runs; None: of none
    keep_ledger_days: int | None = None  # and older rows of the ledger; None: no row

    @classmethod
    def from_mapping(cls, given: object, where: str) -> Self:
        """The policy from parsed YAML. `where` names the file in errors."""
        if not isinstance(given, Mapping):
            raise PolicyError(f"{where} is not a mapping of policy keys. {_REMEDY}")
        values, problems = read_values(given, _READERS, "a key of a policy; keys are")
        if "approvers" not in given:
            problems.append("approvers is missing: name at least one user id")
        if not problems:
            policy = cls(**values)
            if policy.min_throttle_bytes_per_second <= policy.max_throttle_bytes_per_second:
                return policy
            problems.append("min_throttle_bytes_per_second is above max_throttle_bytes_per_second")
        raise PolicyError(f"{where}: {'; '.join(sorted(problems))}. {_REMEDY}")

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values, from which `digest` is computed. What the policy leaves open is not among them, so that a
        new key of that kind changes no digest.
        """
        return {key: value for key, value in plain_values(self).items() if value is not None}

    @property
    def digest(self) -> str:
        # A policy that leaves these open keeps the digest that it had while these numbers were the defaults.
        once = {
            "partitions_per_batch": self.partitions_per_batch or LEAST_PARTITIONS_PER_BATCH,
            "copies_per_broker": self.copies_per_broker or COPIES_PER_BROKER,
        }
        return digest_of(self.to_mapping() | once)

    def tighten(
        self, request: Settings, *, cluster_bytes: int, brokers: int, internal_topics: bool = False
    ) -> Settings:
        """The settings of a run: of the request and the policy, the tighter value of each.

        `cluster_bytes` is what all replicas hold together, `brokers` the number of brokers. Raises PolicyError if the
        policy forbids the throttle, a broker or the internal topics of the request.
        """
        throttle = request.throttle_bytes_per_second or self.max_throttle_bytes_per_second
        lowest = request.throttle_from_bytes_per_second
        problems = self.throttle_problems(throttle, lowest)
        if not problems and lowest is not None and lowest > throttle:
            problems.append(f"throttle_from_bytes_per_second {lowest} is above the policy's {throttle} bytes/s")
        kept_out = sorted(set(self.brokers_out) & (request.leaving | set(request.replace.values())))
        if kept_out:
            problems.append(f"brokers_out of the policy keeps out broker {listed(kept_out)}")
        if shut := sorted(set(self.brokers_out) & set(request.named_receivers)):
            problems.append(f"brokers_out of the policy keeps out broker {listed(shut)}, which brokers_in names")
        if internal_topics and not self.internal_topics:
            problems.append("the policy does not allow internal topics")
        if problems:
            raise PolicyError(f"The request goes beyond the policy: {'; '.join(problems)}. {_REMEDY}")
        limit, most = self.bytes_limit(cluster_bytes), self.partitions_limit(brokers)
        return dataclasses.replace(
            self.measured_by(request),
            **self._stricter(request, _OF_A_PLAN),
            max_bytes=limit if request.max_bytes is None else min(limit, request.max_bytes),
            copies_per_broker=self._copies(request),
            partitions_per_batch=min(request.partitions_per_batch or most, most),
            throttle_bytes_per_second=throttle,
            policy_digest=self.digest,
        )

    def _stricter(self, request: Settings, keys: Iterable[str]) -> dict[str, Any]:
        return {key: STRICTER[key](getattr(request, key), getattr(self, key)) for key in keys}

    def measured_by(self, request: Settings) -> Settings:
        """The settings with what the policy says of places and loads: the nightly check measures by these as well."""
        return dataclasses.replace(
            self.with_rules(request),
            **self._stricter(request, _OF_PLACES_AND_LOADS),
            replicas_per_broker=min(request.replicas_per_broker or self.replicas_per_broker, self.replicas_per_broker),
            rackless_brokers=self.rackless_brokers,
        )

    def with_rules(self, request: Settings) -> Settings:
        """The settings with what the policy alone says of places: the guards before a plan look at these already."""
        return dataclasses.replace(
            request,
            broker_pools=self.broker_pools or (),
            more_replicas_than_racks=bool(self.more_replicas_than_racks),
        )

    def partitions_limit(self, brokers: int) -> int:
        """The partitions that one batch may have in a cluster of so many brokers."""
        return self.partitions_per_batch or partitions_per_batch(brokers)

    @property
    def copies_limit(self) -> int:
        """The replicas that one broker may send or receive at once."""
        return copies_limit(self.copies_per_broker)

    def _copies(self, request: Settings) -> int:
        """`copies_per_broker` of a run; 0 if neither request nor policy gives a number."""
        usual = request.copies[0] if self.copies_per_broker else request.copies_per_broker
        return min(usual, self.copies_limit)

    def bytes_limit(self, cluster_bytes: int) -> int:
        """What one run may copy at most. `cluster_bytes` is what all replicas hold together."""
        return min(self.max_bytes, int(self.max_bytes_share * cluster_bytes))

    def throttle_problems(self, bytes_per_second: int, lowest: int | None) -> list[str]:
        """Of a rate, or of both ends of a range."""
        found = [self.throttle_problem(rate) for rate in (bytes_per_second, lowest) if rate is not None]
        return [problem for problem in found if problem is not None]

    def throttle_problem(self, bytes_per_second: int) -> str | None:
        least, most = self.min_throttle_bytes_per_second, self.max_throttle_bytes_per_second
        if least <= bytes_per_second <= most:
            return None
        return f"a throttle of {bytes_per_second} bytes/s is outside the policy's {least} to {most} bytes/s"


_REMEDY = "Correct the policy or the request, and start again."


def _approvers(value: Any) -> tuple[Approver, ...]:
    """A user id, or `{id, name}` where the auth manager's ids and names differ (FAB)."""
    people = []
    for person in value if isinstance(value, list) and value else [None]:
        fields = {"id": person, "name": person} if isinstance(person, str) else person
        if (
            not isinstance(fields, Mapping)
            or set(fields) != {"id", "name"}
            or not all(type(part) in (str, int) and str(part) for part in fields.values())
        ):
            raise ValueError("must be a non-empty list of user ids (quoted text), or of {id, name}")
        people.append(Approver(str(fields["id"]), str(fields["name"])))
    if len({person.id for person in people}) < len(people):
        raise ValueError("names a user id more than once")
    return tuple(people)


def _ids(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(item) is int and item >= 0 for item in value):
        raise ValueError("must be a list of broker ids")
    return tuple(sorted(set(value)))


def _windows(value: Any) -> tuple[str, ...]:
    """As `read_recurring_window` writes them, so that another way of writing does not change the digest."""
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_WINDOWS:
        raise ValueError(f"must be a list of 1 to {MOST_WINDOWS} windows, as in ['Mon-Fri 22:00-06:00 Europe/Berlin']")
    return tuple(dict.fromkeys(map(_window, value)))


def _window(text: Any) -> str:
    try:
        return read_recurring_window(text).text
    except ValueError as wrong:
        raise ValueError(f"has {text!r}, which {wrong}") from wrong


_fraction = number_reader("above 0 and at most 1", lambda share: 0 < share <= 1)
_READERS: dict[str, Callable[[Any], Any]] = {
    "approvers": _approvers,
    "requester_may_approve": flag,
    "cancel_needs_another_approver": flag,
    "demote_approves_give_back": flag,
    "max_bytes_share": _fraction,
    "max_bytes": integer(1),
    "leader_changes_per_batch": integer(1),
    "partitions_per_batch": integer(0),
    "copies_per_broker": integer(0),
    "partitions_per_topic": integer(1),
    "replicas_per_broker": integer(1),
    "min_throttle_bytes_per_second": integer(1),
    "max_throttle_bytes_per_second": integer(1),
    "topics_out": globs,
    "pinned_topics": globs,
    "rack_pinned_topics": globs,
    "spread_leaders": globs,
    "spread_topics": globs,
    "leader_racks": names,
    "survive": one_of(LOSSES),
    "broker_pools": broker_pools,
    "brokers_out": _ids,
    "rackless_brokers": one_of(RACKLESS),
    "more_replicas_than_racks": flag,
    "even_at_worst_hour": flag,
    "cordon_leaving": flag,
    "copies_within_racks": flag,
    "internal_topics": flag,
    "broker_away_after_seconds": integer(1),
    "approval_expires_after_seconds": integer(1, YEAR_SECONDS),
    "long_pause_seconds": integer(1, YEAR_SECONDS),
    "on_conflict": one_of((STOP, LEAVE_OUT)),
    "growth_limit": number_reader("from 0 to 100, as in 0.25 for a quarter more", lambda share: 0 <= share <= 100),
    "beside_cruise_control": flag,
    "prefer": one_of(PREFERENCES),
    "less_even_plan": one_of(LESS_EVEN_PLANS),
    "price_per_gb_between_racks": number_reader("of at least 0", lambda price: 0 <= price < math.inf),
    "slow_brokers": one_of(SLOW_BROKERS),
    "imbalance_limit": _fraction,
    "windows": _windows,
    "keep_runs_days": integer(1),
    "keep_ledger_days": integer(LEDGER_DAYS),
}
