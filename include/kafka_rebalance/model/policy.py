"""Who may approve, and how much may move: the reviewed file of one cluster, which a requester can only tighten."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from kafka_rebalance.errors import PolicyError
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.settings import (
    FEWEST_BYTES,
    LESS_EVEN_PLANS,
    OFFER,
    PREFERENCES,
    RACKLESS,
    REFUSE,
    TOLERANCE,
    Settings,
)

TIB = 1024**4
YEAR_SECONDS = 366 * 86_400
LONG_PAUSE_SECONDS = 3600
STOP, LEAVE_OUT = "stop", "leave_out"


@dataclass(frozen=True, slots=True)
class Approver:
    """A user of Airflow's auth manager. With the Simple auth manager id and name are the same; with FAB they differ."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Policy:
    """`include/policies/<connection id>.yaml`. Without one the cluster is read-only."""

    approvers: tuple[Approver, ...]
    requester_may_approve: bool = False
    max_bytes_share: float = 0.10  # of the bytes the cluster holds
    max_bytes: int = 2 * TIB
    leader_changes_per_batch: int = 1000
    partitions_per_batch: int = 250
    copies_per_broker: int = 10
    partitions_per_topic: int = 1000  # `kafka_topics` makes no topic larger than this
    replicas_per_broker: int = 4000  # and puts no new replica on a broker beyond this
    min_throttle_bytes_per_second: int = 1_000_000
    max_throttle_bytes_per_second: int = 100_000_000
    topics_out: tuple[str, ...] = ()
    pinned_topics: tuple[str, ...] = ()
    rack_pinned_topics: tuple[str, ...] = ()
    brokers_out: tuple[int, ...] = ()
    rackless_brokers: str = REFUSE  # without a rack among others that have one: refuse, or one_rack for all of them
    internal_topics: bool = False  # whether a run may tick them
    approval_expires_after_seconds: int = 86_400
    on_conflict: str = STOP  # what becomes of partitions that are no longer as approved: `stop` or `leave_out` them
    growth_limit: float = 0.25  # of the approved bytes: more growth before the first write must be approved again
    beside_cruise_control: bool = False  # whether a cluster that Cruise Control works on may be written to
    prefer: str = TOLERANCE  # recommended is the cheapest within `tolerance`; fewest_bytes: that does the job
    less_even_plan: str = OFFER  # what becomes of a given plan that ends less even than the cluster is: or `refuse`
    broker_away_after_seconds: int = 172_800  # the nightly check proposes to go on without a broker away for so long
    long_pause_seconds: int = LONG_PAUSE_SECONDS  # a batch that waits for longer alerts, and the throttle is put back
    imbalance_limit: float = 0.20  # the nightly check proposes a rebalance past this share of the mean

    @classmethod
    def from_mapping(cls, given: object, where: str) -> Self:
        """The policy out of parsed YAML; `where` names the file in errors."""
        problems: list[str] = []
        if not isinstance(given, Mapping):
            raise PolicyError(f"{where} is not a mapping of policy keys. {_UNTOUCHED}")
        known = {f.name for f in dataclasses.fields(cls)}
        problems += [
            f"{key!r} is not a key of a policy; keys are {', '.join(sorted(known))}"
            for key in given
            if key not in known
        ]
        values: dict[str, Any] = {}
        for key in known & set(given):
            try:
                values[key] = _READERS[key](given[key])
            except ValueError as wrong:
                problems.append(f"{key} {wrong}, not {given[key]!r}")
        if "approvers" not in given:
            problems.append("approvers is missing: name at least one user id")
        if not problems:
            policy = cls(**values)
            if policy.min_throttle_bytes_per_second <= policy.max_throttle_bytes_per_second:
                return policy
            problems.append("min_throttle_bytes_per_second is above max_throttle_bytes_per_second")
        raise PolicyError(f"{where}: {'; '.join(sorted(problems))}. {_UNTOUCHED}")

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values; `digest` is taken of them."""
        plain = dataclasses.asdict(self)
        plain["approvers"] = [dataclasses.asdict(approver) for approver in self.approvers]
        for key in ("topics_out", "pinned_topics", "rack_pinned_topics", "brokers_out"):
            plain[key] = list(plain[key])
        return plain

    @property
    def digest(self) -> str:
        return digest_of(self.to_mapping())

    def tighten(self, asked: Settings, *, cluster_bytes: int, internal_topics: bool = False) -> Settings:
        """The settings a run gets: the tighter of what was asked and what the policy allows.

        `cluster_bytes` is what all replicas hold together. Raises PolicyError for a request that cannot be tightened
        into something the policy allows: a throttle out of range, a broker or internal topics that it keeps out.
        """
        problems = []
        throttle = asked.throttle_bytes_per_second
        if throttle is None:
            throttle = self.max_throttle_bytes_per_second
        elif (problem := self.throttle_problem(throttle)) is not None:
            problems.append(problem)
        kept_out = sorted(set(self.brokers_out) & (asked.leaving | set(asked.replace.values())))
        if kept_out:
            problems.append(f"brokers_out of the policy keeps out broker {', '.join(map(str, kept_out))}")
        if internal_topics and not self.internal_topics:
            problems.append("the policy does not allow internal topics to be moved")
        if problems:
            raise PolicyError(f"The request goes beyond the policy: {'; '.join(problems)}. {_UNTOUCHED}")
        limit = self.bytes_limit(cluster_bytes)
        return dataclasses.replace(
            asked,
            max_bytes=limit if asked.max_bytes is None else min(limit, asked.max_bytes),
            topics_out=tuple(dict.fromkeys((*asked.topics_out, *self.topics_out))),
            pinned_topics=tuple(dict.fromkeys((*asked.pinned_topics, *self.pinned_topics))),
            rack_pinned_topics=tuple(dict.fromkeys((*asked.rack_pinned_topics, *self.rack_pinned_topics))),
            brokers_out=tuple(sorted({*asked.brokers_out, *self.brokers_out})),
            rackless_brokers=self.rackless_brokers,
            copies_per_broker=min(asked.copies_per_broker, self.copies_per_broker),
            partitions_per_batch=min(asked.partitions_per_batch, self.partitions_per_batch),
            leader_changes_per_batch=min(asked.leader_changes_per_batch, self.leader_changes_per_batch),
            prefer=FEWEST_BYTES if FEWEST_BYTES in (asked.prefer, self.prefer) else TOLERANCE,
            less_even_plan=REFUSE if REFUSE in (asked.less_even_plan, self.less_even_plan) else OFFER,
            throttle_bytes_per_second=throttle,
            policy_digest=self.digest,
        )

    def bytes_limit(self, cluster_bytes: int) -> int:
        """What one run may copy at most; `cluster_bytes` is what all replicas hold together."""
        return min(self.max_bytes, int(self.max_bytes_share * cluster_bytes))

    def throttle_problem(self, bytes_per_second: int) -> str | None:
        """Why this throttle is not allowed, or None."""
        least, most = self.min_throttle_bytes_per_second, self.max_throttle_bytes_per_second
        if least <= bytes_per_second <= most:
            return None
        return f"a throttle of {bytes_per_second} bytes/s is outside the policy's {least} to {most} bytes/s"


_UNTOUCHED = "Nothing was written to the cluster. Correct the policy or the request, and start again."


def _approvers(value: Any) -> tuple[Approver, ...]:
    """A user id, or `{id, name}` where the auth manager's ids and names differ (FAB)."""
    if not isinstance(value, list) or not value:
        raise ValueError("must be a non-empty list of user ids, or of {id, name}")
    people = []
    for person in value:
        if isinstance(person, str) and person:
            people.append(Approver(person, person))
        elif (
            isinstance(person, Mapping)
            and set(person) == {"id", "name"}
            and all(
                isinstance(part, (str, int)) and not isinstance(part, bool) and str(part) for part in person.values()
            )
        ):
            people.append(Approver(str(person["id"]), str(person["name"])))
        else:
            raise ValueError("must be a non-empty list of user ids (quoted text), or of {id, name}")
    if len({person.id for person in people}) < len(people):
        raise ValueError("names a user id more than once")
    return tuple(people)


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("must be true or false")
    return value


def _positive(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError("must be an integer of at least 1")
    return value


def _seconds(value: Any) -> int:
    if _positive(value) > YEAR_SECONDS:
        raise ValueError(f"must be at most a year ({YEAR_SECONDS} seconds)")
    return int(value)


def _fraction(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise ValueError("must be a number above 0 and at most 1")
    return float(value)


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
        raise ValueError("must be a number from 0 to 100, as in 0.25 for a quarter more")
    return float(value)


def _one_of(allowed: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"must be {' or '.join(allowed)}")
        return str(value)

    return read


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError("must be a list of topic globs")
    return tuple(value)


def _ids(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(item) is int and item >= 0 for item in value):
        raise ValueError("must be a list of broker ids")
    return tuple(sorted(set(value)))


_READERS: dict[str, Callable[[Any], Any]] = {
    "approvers": _approvers,
    "requester_may_approve": _flag,
    "max_bytes_share": _fraction,
    "max_bytes": _positive,
    "leader_changes_per_batch": _positive,
    "partitions_per_batch": _positive,
    "copies_per_broker": _positive,
    "partitions_per_topic": _positive,
    "replicas_per_broker": _positive,
    "min_throttle_bytes_per_second": _positive,
    "max_throttle_bytes_per_second": _positive,
    "topics_out": _texts,
    "pinned_topics": _texts,
    "rack_pinned_topics": _texts,
    "brokers_out": _ids,
    "rackless_brokers": _one_of(RACKLESS),
    "internal_topics": _flag,
    "broker_away_after_seconds": _positive,
    "approval_expires_after_seconds": _seconds,
    "long_pause_seconds": _seconds,
    "on_conflict": _one_of((STOP, LEAVE_OUT)),
    "growth_limit": _share,
    "beside_cruise_control": _flag,
    "prefer": _one_of(PREFERENCES),
    "less_even_plan": _one_of(LESS_EVEN_PLANS),
    "imbalance_limit": _fraction,
}
