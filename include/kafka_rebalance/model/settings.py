"""What a run is asked to do. Settings are checked once, where they come in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Self

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.finding import listed
from kafka_rebalance.model.value_readers import (
    broker_ids,
    flag,
    globs,
    integer,
    names,
    number_reader,
    one_of,
    optional,
    plain_values,
    read_values,
    share,
    some_globs,
    text,
)

_LEFT_OUT_WHEN_OPEN = (
    "brokers_in",
    "more_replicas_than_racks",
    "even_at_worst_hour",
    "copies_within_racks",
    "broker_pools",
    "replicas_per_broker",
    "spread_leaders",
    "spread_topics",
    "throttle_from_bytes_per_second",
    "leader_racks",
    "survive",
)  # of a digest; earlier versions have no such setting

# Of earlier versions, which documents still have, with the only value that is done now.
_PAST = (("trials", 1), ("max_replicas", None), ("new_brokers_only", False))
# No longer settings, and what to give instead.
_RETIRED = {
    "max_replicas": "max_bytes limits what a run copies",
    "new_brokers_only": 'brokers_in: "new" says the same',
}

COPIES_PER_BROKER, MOST_COPIES_PER_BROKER = 10, 20  # at once, if nobody gives a number: usually, and at most

LEAST_PARTITIONS_PER_BATCH = 250  # of the limit if nobody gives one; earlier versions had it for clusters of any size

JOBS = (
    "balance",
    "leaders",
    "elect",
    "drain",
    "replace",
    "replication_factor",
    "relieve",
    "repair_racks",
    "replace_log_dir",
)
REPLACE_LOG_DIR = JOBS[-1]  # replicas on log dirs that are offline go to other brokers, and nothing else moves
LEADERS_ALONE = ("leaders", "elect")  # of the jobs, those that copy nothing
GIVE_BACK = "give_back"  # a job of the form alone: its run has job `leaders`, and as its plan the lists before a demote
# The planner searches these candidates itself. It offers `optimal` if the cluster is small enough to be solved exactly.
LEADERS_ONLY, LIGHT, BALANCED, OPTIMAL = SEARCHED = ("leaders_only", "light", "balanced", "optimal")
AS_KAFKA, GIVEN = "as_kafka", "given"  # the planner does not search these
CANDIDATES = (*SEARCHED, AS_KAFKA)  # what a run may ask for; `given` comes with a plan
TOLERANCE, FEWEST_BYTES = PREFERENCES = ("tolerance", "fewest_bytes")  # what the recommended candidate meets first
SURVIVE_BROKER, SURVIVE_RACK = LOSSES = ("broker", "rack")  # what a cluster is to survive the loss of
OFFER, REFUSE = LESS_EVEN_PLANS = ("offer", "refuse")
ONE_RACK = "one_rack"
NEW = "new"  # of `brokers_in`: the brokers that hold no replica in the snapshot
RACKLESS = (REFUSE, ONE_RACK)  # how brokers without a rack are treated if others have one


@dataclass(frozen=True, slots=True)
class BrokerPool:
    """Topics, and the brokers that alone hold them and hold no other topics."""

    topics: tuple[str, ...]  # globs
    brokers: tuple[int, ...]  # ids, ascending

    @property
    def name(self) -> str:
        return listed(self.topics)


@dataclass(frozen=True, slots=True)
class Settings:
    """One run's settings: the Dag's params after the policy has tightened them. Sizes are bytes, limits are totals."""

    job: str = "balance"  # what the run does
    tolerance: float = 0.10  # every resource of `balanced` within this share of the reachable mean
    seed: int = 0  # of the search; the same seed gives the same plan
    topics_in: tuple[str, ...] = ("*",)  # globs; all other topics stay as they are
    topics_out: tuple[str, ...] = ()  # globs; these topics stay as they are, and count as load
    pinned_topics: tuple[str, ...] = ()  # globs: replicas stay on their brokers; the order of a list may change
    rack_pinned_topics: tuple[str, ...] = ()  # globs: a replica moves only to brokers of its own rack
    spread_leaders: tuple[str, ...] = ()  # globs: leaders of these topics spread evenly, for further leader changes
    spread_topics: tuple[str, ...] = ()  # globs: replicas of these topics spread evenly, for further bytes
    leader_racks: tuple[str, ...] = ()  # leaders are in these racks where the lists allow it; empty: in any
    survive: str | None = None  # broker or rack: no loss of one leaves a disk too full, or a network too busy
    broker_pools: tuple[BrokerPool, ...] = ()  # topics that only these brokers hold; all others share the other brokers
    replicas_per_broker: int | None = None  # that one broker may hold in the end, unless it holds more already
    brokers_out: tuple[int, ...] = ()  # they keep their replicas and receive none
    brokers_in: tuple[int, ...] | str = ()  # only these receive; new: brokers without a replica; empty: no such limit
    rackless_brokers: str = REFUSE  # if others have a rack: refuse to plan, or count them together as one_rack
    more_replicas_than_racks: bool = False  # allowed, and then every rack holds as many of a partition, or one more
    even_at_worst_hour: bool = False  # bytes in are those of the hour of the week in which the cluster takes most
    copies_within_racks: bool = False  # bytes copied between racks count twice in the search, and leaders nothing
    drain: tuple[int, ...] = ()  # brokers to empty; with job `leaders`, brokers that lead nothing in the end
    replace: Mapping[int, int] = field(default_factory=dict)  # {old: new}: new takes what old holds
    replication_factor: int | None = None  # the new factor, for job `replication_factor`
    relieve_above: float | None = None  # share of a disk in use: job `relieve` takes only from brokers above it
    max_bytes: int | None = None  # to copy, at most; the plan stops short of it
    max_leader_changes: int | None = None  # partitions that another broker leads in the end, at most
    candidates: tuple[str, ...] = SEARCHED  # what the planner computes; none is allowed with a plan alone
    prefer: str = TOLERANCE  # recommend the cheapest within `tolerance`; fewest_bytes: the cheapest that does the job
    less_even_plan: str = OFFER  # offer or refuse a given plan that ends less even than the cluster is
    plan: str | None = None  # in kafka-reassign-partitions' JSON; it is scored beside our own candidates
    copies_per_broker: int = 0  # replicas that one broker sends or receives at once; 0: 10, up to 20 if that is faster
    partitions_per_batch: int = 0  # at most; 0: as many as there are brokers, and at least 250
    leader_changes_per_batch: int = 1000  # at most
    throttle_bytes_per_second: int | None = None  # of each broker; None in a run: the most that the policy allows
    throttle_from_bytes_per_second: int | None = (
        None  # the run begins with it, and itself chooses the rate of each broker between the two; None: one rate
    )
    disk_headroom: float = 0.10  # share of a disk that stays free while both copies exist
    policy_digest: str | None = None  # ties every candidate's digest to the policy

    @classmethod
    def from_mapping(cls, given: object) -> Self:
        """Settings from JSON or Dag params. Raises SettingsError that names every wrong key and what is allowed."""
        if not isinstance(given, Mapping):
            raise _unusable([f"they are {type(given).__name__}, not an object of settings"])
        given = {key: value for key, value in given.items() if key != "format_version" and (key, value) not in _PAST}
        values, problems = read_values(given, _READERS, "a setting; settings are", _RETIRED)
        if not problems:
            problems = _contradictions(cls(**values))
        if problems:
            raise _unusable(problems)
        return cls(**values)

    @classmethod
    def from_document(cls, written: Mapping[str, Any]) -> Self:
        """Settings of a run, as this or an earlier version wrote them: a run in mid-plan outlives an upgrade.

        Raises SettingsError.
        """
        kept = {key: value for key, value in written.items() if key not in _RETIRED}
        return cls.from_mapping(kept | ({"brokers_in": NEW} if written.get("new_brokers_only") else {}))

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values: what digests and settings.json hold.

        A later setting that is left open is not among them, and one that was retired is, as if it were left open: so
        the same plan keeps its digest.
        """
        replace = {str(old): new for old, new in sorted(self.replace.items())}
        values = plain_values(self) | {"max_replicas": None, "replace": replace}
        return {key: value for key, value in values.items() if value or key not in _LEFT_OUT_WHEN_OPEN}

    def for_brokers(self, brokers: int) -> Self:
        """The settings for a cluster of so many brokers: none is left to the number of brokers."""
        most = self.partitions_per_batch or partitions_per_batch(brokers)
        return dataclasses.replace(self, partitions_per_batch=most)

    def selects(self, topic: str) -> bool:
        """Whether this topic may change: a glob of `topics_in` matches it, and none of `topics_out`."""
        return matches(topic, self.topics_in) and not matches(topic, self.topics_out)

    @property
    def copies(self) -> tuple[int, int]:
        """(the replicas that one broker sends or receives at once; as many at most, where these make a run shorter)"""
        return self.copies_per_broker or COPIES_PER_BROKER, copies_limit(self.copies_per_broker)

    @property
    def leaving(self) -> frozenset[int]:
        """Brokers that the plan empties."""
        return frozenset(self.drain) | frozenset(self.replace)

    @property
    def is_demote(self) -> bool:
        """Whether brokers are to lead nothing in the end and keep their replicas."""
        return self.job == "leaders" and bool(self.drain)

    @property
    def named_receivers(self) -> tuple[int, ...]:
        """The ids in `brokers_in`."""
        return () if isinstance(self.brokers_in, str) else self.brokers_in

    def receivers(self, empty: Iterable[int]) -> frozenset[int] | None:
        """The brokers that alone receive replicas, by `brokers_in`; None: it leaves that open.

        `empty` are those that hold no replica in the snapshot.
        """
        if not self.brokers_in:
            return None
        return frozenset(empty if self.brokers_in == NEW else self.named_receivers)


def copies_limit(copies_per_broker: int) -> int:
    """What a broker may send or receive at once with this setting, also where nobody gives a number."""
    return copies_per_broker or MOST_COPIES_PER_BROKER


def partitions_per_batch(brokers: int) -> int:
    """The limit if nobody gives one: then each broker of a large cluster has one partition in motion on average."""
    return max(LEAST_PARTITIONS_PER_BATCH, brokers)


def matches(topic: str, globs: Iterable[str]) -> bool:
    """Whether one of the globs matches the topic; upper and lower case differ."""
    return any(fnmatchcase(topic, glob) for glob in globs)


def pools_with(topic: str, pools: Sequence[BrokerPool]) -> tuple[int, ...]:
    """The numbers of the pools that have the topic: a sound policy has it in one at most."""
    return tuple(number for number, pool in enumerate(pools) if matches(topic, pool.topics))


def brokers_for(topic: str, pools: Sequence[BrokerPool], brokers: Iterable[int]) -> tuple[int, ...]:
    """Which of the brokers may hold the topic: those of its pool, or of no pool if it has none."""
    named = pools_with(topic, pools)
    inside = {broker for number in named for broker in pools[number].brokers}
    taken = {broker for pool in pools for broker in pool.brokers}
    return tuple(broker for broker in brokers if (broker in inside if named else broker not in taken))


def _unusable(problems: Sequence[str]) -> SettingsError:
    return SettingsError(
        f"The settings cannot be used: {'; '.join(problems)}. "
        "Nothing was read or written. Correct them and start again."
    )


def _contradictions(settings: Settings) -> list[str]:
    """Settings that are allowed one by one, but not together."""
    job, factor, receiving = settings.job, settings.replication_factor, set(settings.replace.values())
    both, shut = (sorted(brokers & receiving) for brokers in (settings.leaving, set(settings.brokers_out)))
    named = set(settings.named_receivers)
    emptied, closed = (sorted(brokers & named) for brokers in (settings.leaving, set(settings.brokers_out)))
    outside = sorted(receiving - named) if named else []
    lowest, highest = settings.throttle_from_bytes_per_second, settings.throttle_bytes_per_second
    contradictions = {
        "job 'elect' cannot have 'drain' or 'replace'; use job 'leaders' to take leadership from a broker": (
            job == "elect" and settings.leaving
        ),
        "job 'elect' changes no replica list, so it cannot have a 'plan'": job == "elect" and settings.plan is not None,
        "'candidates' is empty, which is allowed only with a 'plan'": (
            not settings.candidates and settings.plan is None
        ),
        "job 'drain' needs the brokers to empty in 'drain'": job == "drain" and not settings.drain,
        "job 'replace' needs {old: new} in 'replace'": job == "replace" and not settings.replace,
        "job 'replication_factor' needs 'replication_factor'": job == "replication_factor" and factor is None,
        f"job {REPLACE_LOG_DIR!r} takes only what lies on log dirs that are offline, so it cannot have 'drain' or "
        "'replace'": job == REPLACE_LOG_DIR and settings.leaving,
        "'replication_factor' needs job 'replication_factor'": job != "replication_factor" and factor is not None,
        "'relieve_above' needs job 'relieve'": job != "relieve" and settings.relieve_above is not None,
        f"broker {listed(both)} is to be emptied and also to receive": both,
        f"broker {listed(shut)} is to receive by 'replace', and is in 'brokers_out', which receive nothing": shut,
        f"broker {listed(emptied)} is to be emptied by 'drain' or 'replace', and is in 'brokers_in', which receive": (
            emptied
        ),
        f"broker {listed(closed)} is in 'brokers_in', which receive, and in 'brokers_out', which receive nothing": (
            closed
        ),
        f"broker {listed(outside)} is to receive by 'replace', and is not in 'brokers_in', which alone receive": (
            outside
        ),
        f"job {job!r} moves no replica, so it cannot have 'brokers_in'": job in LEADERS_ALONE and settings.brokers_in,
        f"'throttle_from_bytes_per_second' ({lowest}) is above 'throttle_bytes_per_second' ({highest})": (
            lowest is not None and highest is not None and lowest > highest
        ),
        "a broker is in both 'drain' and 'replace'": set(settings.drain) & set(settings.replace),
        "'replace' names one new broker for two old ones": len(receiving) < len(settings.replace),
    }
    return [problem for problem, is_so in contradictions.items() if is_so]


def broker_pools(value: Any) -> tuple[BrokerPool, ...]:
    """Reads a list of {topics, brokers}, which may be empty. No broker is in two pools."""
    pools = []
    for pool in value if isinstance(value, (list, tuple)) else [None]:
        if not isinstance(pool, Mapping) or set(pool) != {"topics", "brokers"}:
            raise ValueError("must be a list of {topics: [glob, …], brokers: [id, …]}")
        try:
            pools.append(BrokerPool(some_globs(pool["topics"]), broker_ids(pool["brokers"])))
        except ValueError as wrong:
            raise ValueError(f"has a pool whose list {wrong}") from wrong
        if not pools[-1].brokers:
            raise ValueError(f"has a pool of {pools[-1].name} without brokers")
    brokers = [broker for pool in pools for broker in pool.brokers]
    twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
    if twice:
        raise ValueError(f"has broker {listed(twice)} in more than one pool")
    return tuple(pools)


def _receivers(value: Any) -> tuple[int, ...] | str:
    """A form has lists alone, so a list of nothing but `new` is the same as the word."""
    if value in (NEW, [NEW], (NEW,)):
        return NEW
    try:
        return broker_ids(value)
    except ValueError as wrong:
        raise ValueError(f"{wrong}, or {NEW!r}") from wrong


def _replacements(value: Any) -> dict[int, int]:
    """JSON keys are texts, so "1" is broker 1. The new broker must be an integer."""
    if not isinstance(value, Mapping) or not all(
        str(old).isdecimal() and type(new) is int and new >= 0 for old, new in value.items()
    ):
        raise ValueError("must be an object {old broker id: new broker id}")
    pairs = {int(old): new for old, new in value.items()}
    if len(pairs) < len(value):
        raise ValueError("names an old broker more than once")
    return dict(sorted(pairs.items()))


def _candidates(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or any(name not in CANDIDATES for name in value):
        raise ValueError(f"must be a list of some of {', '.join(CANDIDATES)}")
    return tuple(name for name in CANDIDATES if name in value)


def _plan(value: Any) -> str:
    """Any text: the planner compares its content with the snapshot."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text: a plan in the JSON of kafka-reassign-partitions")
    return value


_READERS: dict[str, Callable[[Any], Any]] = {
    "job": one_of(JOBS),
    "tolerance": share,
    "seed": integer(0, 2**32 - 1),
    "topics_in": some_globs,
    "topics_out": globs,
    "pinned_topics": globs,
    "rack_pinned_topics": globs,
    "spread_leaders": globs,
    "spread_topics": globs,
    "leader_racks": names,
    "survive": optional(one_of(LOSSES)),
    "broker_pools": broker_pools,
    "replicas_per_broker": optional(integer(1)),
    "brokers_out": broker_ids,
    "brokers_in": _receivers,
    "rackless_brokers": one_of(RACKLESS),
    "more_replicas_than_racks": flag,
    "even_at_worst_hour": flag,
    "copies_within_racks": flag,
    "drain": broker_ids,
    "replace": _replacements,
    "replication_factor": optional(integer(1, 32767)),
    "relieve_above": optional(share),
    "max_bytes": optional(integer(0)),
    "max_leader_changes": optional(integer(0)),
    "candidates": _candidates,
    "prefer": one_of(PREFERENCES),
    "less_even_plan": one_of(LESS_EVEN_PLANS),
    "plan": optional(_plan),
    "copies_per_broker": integer(0),
    "partitions_per_batch": integer(0),
    "leader_changes_per_batch": integer(1),
    "throttle_bytes_per_second": optional(integer(1)),
    "throttle_from_bytes_per_second": optional(integer(1)),
    "disk_headroom": number_reader("from 0 to below 1", lambda share: 0 <= share < 1),
    "policy_digest": optional(text),
}
