"""What a run is asked to do, checked once where it comes in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Self, TypeVar

from kafka_rebalance.errors import SettingsError

T = TypeVar("T")

_LARGEST_LONG = 2**63 - 1  # Kafka's rates and sizes are Java's longs, and so are the planner's arrays

JOBS = ("balance", "leaders", "elect", "drain", "replace", "replication_factor", "relieve", "repair_racks")
LEADERS_ALONE = ("leaders", "elect")  # of the jobs, those that copy nothing
# The planner's own candidates; `optimal` where the cluster is small enough to be solved exactly.
LEADERS_ONLY, LIGHT, BALANCED, OPTIMAL = SEARCHED = ("leaders_only", "light", "balanced", "optimal")
AS_KAFKA, GIVEN = "as_kafka", "given"  # the candidates that are not searched
CANDIDATES = (*SEARCHED, AS_KAFKA)  # what a run may ask for; `given` is there whenever there is a plan
TOLERANCE, FEWEST_BYTES = PREFERENCES = ("tolerance", "fewest_bytes")  # what the recommended candidate meets first
OFFER, REFUSE = LESS_EVEN_PLANS = ("offer", "refuse")
ONE_RACK = "one_rack"
RACKLESS = (REFUSE, ONE_RACK)  # what becomes of brokers without a rack among others that have one


@dataclass(frozen=True, slots=True)
class Settings:
    """One run's settings: the Dag's params after the policy has tightened them. Sizes are bytes, limits are totals."""

    job: str = "balance"
    tolerance: float = 0.10  # every resource of `balanced` within this share of the reachable mean
    seed: int = 0
    trials: int = 1  # searches of each candidate, every one from another seed; the best is kept
    topics_in: tuple[str, ...] = ("*",)  # globs
    topics_out: tuple[str, ...] = ()
    pinned_topics: tuple[str, ...] = ()  # globs: replicas stay on their brokers, leaders may be re-ordered
    rack_pinned_topics: tuple[str, ...] = ()  # globs: a replica moves only to brokers of its own rack
    brokers_out: tuple[int, ...] = ()  # keep what they have, receive nothing
    rackless_brokers: str = REFUSE  # among others with a rack: refuse to plan, or let them count as one_rack together
    drain: tuple[int, ...] = ()
    replace: Mapping[int, int] = field(default_factory=dict)  # {old: new}
    replication_factor: int | None = None
    relieve_above: float | None = None  # share of a disk in use: job `relieve` takes from brokers above it alone
    max_bytes: int | None = None
    max_replicas: int | None = None
    max_leader_changes: int | None = None
    candidates: tuple[str, ...] = SEARCHED
    prefer: str = TOLERANCE  # recommended is the cheapest within `tolerance`; fewest_bytes: that does the job
    less_even_plan: str = OFFER  # what becomes of a given plan that ends less even than the cluster is
    plan: str | None = None  # in kafka-reassign-partitions' JSON, to be measured beside our own candidates
    copies_per_broker: int = 10  # replicas that one broker sends or receives at once
    partitions_per_batch: int = 250
    leader_changes_per_batch: int = 1000
    throttle_bytes_per_second: int | None = None
    disk_headroom: float = 0.10  # share of a disk that stays free while both copies exist
    policy_digest: str | None = None  # binds the policy into every candidate's digest

    @classmethod
    def from_mapping(cls, given: object) -> Self:
        """Settings from JSON or Dag params. Raises SettingsError that names every wrong key and what is allowed."""
        if not isinstance(given, Mapping):
            raise SettingsError(
                f"The settings cannot be used: they are {type(given).__name__}, not an object of settings. "
                "Nothing was read or written. Correct them and start again."
            )
        known = {f.name: f for f in dataclasses.fields(cls)}
        given = {key: value for key, value in given.items() if key != "format_version"}
        problems = [f"{key!r} is not a setting; settings are {', '.join(known)}" for key in given if key not in known]
        values: dict[str, Any] = {}
        for key, value in given.items():
            if key in known:
                try:
                    values[key] = _READERS[key](value)
                except ValueError as wrong:
                    problems.append(f"{key} {wrong}, not {value!r}")
        if not problems:
            problems = list(_contradictions(cls(**values)))
        if problems:
            raise SettingsError(
                f"The settings cannot be used: {'; '.join(problems)}. "
                "Nothing was read or written. Correct them and start again."
            )
        return cls(**values)

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values, every key present: what digests and settings.json hold."""
        plain: dict[str, Any] = {}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if isinstance(value, tuple):
                value = list(value)
            elif isinstance(value, Mapping):
                value = {str(old): new for old, new in sorted(value.items())}
            plain[f.name] = value
        return plain

    def selects(self, topic: str) -> bool:
        """Whether this topic may be changed: matched by `topics_in`, by none of `topics_out`."""
        return matches(topic, self.topics_in) and not matches(topic, self.topics_out)

    @property
    def leaving(self) -> frozenset[int]:
        """Brokers that must hold nothing in the end."""
        return frozenset(self.drain) | frozenset(self.replace)


def matches(topic: str, globs: Iterable[str]) -> bool:
    """Whether one of the globs is the topic's; case counts."""
    return any(fnmatchcase(topic, glob) for glob in globs)


def _contradictions(settings: Settings) -> tuple[str, ...]:
    """Settings that are fine one by one but not together."""
    found = [*_needing_lists(settings)] if settings.job == "elect" else []
    if not settings.candidates and settings.plan is None:
        found.append("'candidates' is empty, which only a run with a 'plan' may leave so")
    if settings.job == "drain" and not settings.drain:
        found.append("job 'drain' needs the brokers to empty in 'drain'")
    if settings.job == "replace" and not settings.replace:
        found.append("job 'replace' needs {old: new} in 'replace'")
    if settings.job == "replication_factor" and settings.replication_factor is None:
        found.append("job 'replication_factor' needs 'replication_factor'")
    if settings.replication_factor is not None and settings.job != "replication_factor":
        found.append("'replication_factor' needs job 'replication_factor'")
    if settings.relieve_above is not None and settings.job != "relieve":
        found.append("'relieve_above' needs job 'relieve'")
    both = settings.leaving & set(settings.replace.values())
    if both:
        found.append(f"broker {', '.join(map(str, sorted(both)))} is to be emptied and to receive at once")
    shut = set(settings.brokers_out) & set(settings.replace.values())
    if shut:
        found.append(
            f"broker {', '.join(map(str, sorted(shut)))} is to receive in 'replace' and nothing by 'brokers_out'"
        )
    if set(settings.drain) & set(settings.replace):
        found.append("a broker is in 'drain' and in 'replace'")
    if len(set(settings.replace.values())) < len(settings.replace):
        found.append("two brokers are replaced by the same one")
    return tuple(found)


def _needing_lists(settings: Settings) -> Iterable[str]:
    """What job `elect` cannot do, since it changes no list."""
    if settings.leaving:
        yield "job 'elect' takes no 'drain' or 'replace': job 'leaders' takes leadership away from a broker"
    if settings.plan is not None:
        yield "job 'elect' changes no list, so it takes no 'plan'"


def _integer(least: int, most: int = _LARGEST_LONG) -> Callable[[Any], int]:
    """A reader of one integer; JSON floats and booleans are not integers."""

    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"must be an integer of at least {least} and at most {most}")
        return value

    return read


def _optional(reader: Callable[[Any], T]) -> Callable[[Any], T | None]:
    return lambda value: None if value is None else reader(value)


def _share(value: Any, *, least: float = 0.0, most: float = 1.0) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least < value < most:
        raise ValueError(f"must be a number above {least:g} and below {most:g}")
    return float(value)


def _headroom(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise ValueError("must be a number from 0 to below 1")
    return float(value)


def _globs(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise ValueError("must be a list of topic globs")
    if not all(isinstance(glob, str) and glob for glob in value):
        raise ValueError("must be a list of non-empty topic globs")
    return tuple(value)


def _some_globs(value: Any) -> tuple[str, ...]:
    globs = _globs(value)
    if not globs:
        raise ValueError('must name at least one topic glob; ["*"] is every topic')
    return globs


def _broker_ids(value: Any) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)) or not all(type(broker) is int and broker >= 0 for broker in value):
        raise ValueError("must be a list of broker ids, non-negative integers")
    if len(set(value)) < len(value):
        raise ValueError("names a broker more than once")
    return tuple(sorted(value))


def _replacements(value: Any) -> dict[int, int]:
    """JSON keys are strings, so "1" is read as broker 1; the new broker must be an integer."""
    if not isinstance(value, Mapping):
        raise ValueError("must be an object {old broker id: new broker id}")
    pairs = {}
    for old, new in value.items():
        if not str(old).isdecimal() or type(new) is not int or new < 0:
            raise ValueError("must be an object {old broker id: new broker id}")
        if int(old) in pairs:
            raise ValueError("names a broker to replace more than once")
        pairs[int(old)] = new
    return dict(sorted(pairs.items()))


def _one_of(allowed: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return str(value)

    return read


def _candidates(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or any(name not in CANDIDATES for name in value):
        raise ValueError(f"must be a list out of {', '.join(CANDIDATES)}")
    return tuple(name for name in CANDIDATES if name in value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value


def _plan(value: Any) -> str:
    """Text alone; what it says is held against the snapshot, where the plan is made."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a plan in the JSON of kafka-reassign-partitions, as text")
    return value


_READERS: dict[str, Callable[[Any], Any]] = {
    "job": _one_of(JOBS),
    "tolerance": _share,
    "seed": _integer(0, 2**32 - 1),
    "trials": _integer(1, 1000),
    "topics_in": _some_globs,
    "topics_out": _globs,
    "pinned_topics": _globs,
    "rack_pinned_topics": _globs,
    "brokers_out": _broker_ids,
    "rackless_brokers": _one_of(RACKLESS),
    "drain": _broker_ids,
    "replace": _replacements,
    "replication_factor": _optional(_integer(1, 32767)),
    "relieve_above": _optional(_share),
    "max_bytes": _optional(_integer(0)),
    "max_replicas": _optional(_integer(0)),
    "max_leader_changes": _optional(_integer(0)),
    "candidates": _candidates,
    "prefer": _one_of(PREFERENCES),
    "less_even_plan": _one_of(LESS_EVEN_PLANS),
    "plan": _optional(_plan),
    "copies_per_broker": _integer(1),
    "partitions_per_batch": _integer(1),
    "leader_changes_per_batch": _integer(1),
    "throttle_bytes_per_second": _optional(_integer(1)),
    "disk_headroom": _headroom,
    "policy_digest": _optional(_text),
}
