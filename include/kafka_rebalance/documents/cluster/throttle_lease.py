"""A cluster's throttle lease: who throttles since when, with what, and what was there before.

There is one a cluster, kept outside Airflow's database, so that a run that is deleted does not take along what its
throttle has to be put back to. Plain values here; `steps.throttle.lease_files` reads and writes them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.kafka.throttles import EVERY_REPLICA, LIST_KEYS, RATE_KEYS, parse_throttled_replicas

_ENTITY = re.compile(r"topics/(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}|brokers/(?:0|[1-9][0-9]{0,9})", re.ASCII)
# What this program sets, in the one form it sets it in.
_OWN_RATE = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_OWN_LIST = re.compile(r"[0-9]{1,10}:[0-9]{1,10}(?:,[0-9]{1,10}:[0-9]{1,10})*", re.ASCII)
_LARGEST_RATE = 2**63 - 1
_WHERE = ("owner", "connection_id", "cluster_id", "run_folder", "taken_at", "taken_under", "generation")
_MOMENTS = ("handed_over_at", "suspended_at", "released_at")


@dataclass(frozen=True, slots=True)
class RateChange:
    """Another rate while the run goes on: who asked for it, and when (ISO 8601)."""

    bytes_per_second: int
    by: str
    at: str


@dataclass(frozen=True, slots=True)
class ThrottleLease:
    """Who throttles, with what, and what was there before.

    `wanted`: entity -> key -> value, a list's entries comma-separated. `prior` has the same entities and keys; None
    means that the key was not there. Times are ISO 8601.
    """

    run: str  # Dag id and run id
    candidate_digest: str
    bytes_per_second: int  # now; the approved one is `taken_at_rate`
    wanted: Mapping[str, Mapping[str, str]]
    prior: Mapping[str, Mapping[str, str | None]]
    owner: str = ""  # which Airflow, as in the lock
    connection_id: str = ""
    cluster_id: str = ""
    run_folder: str = ""
    taken_at: str = ""
    taken_under: str = ""  # generation of the fence when the run took it, last
    generation: str = ""  # of the fence under which this was written; empty by a version that had none
    first_bytes_per_second: int | None = None  # where the rate was changed since
    rate_changes: tuple[RateChange, ...] = ()
    handed_over_at: str | None = None  # the run gave up with copies in flight: the janitor keeps the throttle
    suspended_at: str | None = None  # put back for as long as the next batch waits; nothing of it need be in force
    released_at: str | None = None  # all is as it was before

    @property
    def entities(self) -> tuple[str, ...]:
        """What to read from ZooKeeper for `set_changes`, `confirm` and `release`."""
        return tuple(self.wanted)

    @property
    def topics(self) -> frozenset[str]:
        """Whose partitions to read for `copying_of`."""
        return frozenset(entity.partition("/")[2] for entity in self.wanted if entity.startswith("topics/"))

    @property
    def taken_at_rate(self) -> int:
        """The rate that was approved, in bytes a second."""
        return self.bytes_per_second if self.first_bytes_per_second is None else self.first_bytes_per_second

    @property
    def own_rates(self) -> frozenset[str]:
        """Every rate that this lease may have set: a change that breaks off leaves some brokers at the one before."""
        rates = (self.taken_at_rate, self.bytes_per_second, *(change.bytes_per_second for change in self.rate_changes))
        return frozenset(map(str, rates))

    def own_entries(self, entity: str, key: str) -> tuple[str, ...]:
        """The entries of a list that this run adds; those that `*` or somebody else had there already are not ours."""
        before = list_entries(self.prior[entity][key], key)
        if before == (EVERY_REPLICA,):
            return ()
        return tuple(entry for entry in list_entries(self.wanted[entity][key], key) if entry not in before)

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "run": self.run,
            "candidate_digest": self.candidate_digest,
            "bytes_per_second": self.bytes_per_second,
            "wanted": {entity: dict(values) for entity, values in self.wanted.items()},
            "prior": {entity: dict(values) for entity, values in self.prior.items()},
            **{name: getattr(self, name) for name in (*_WHERE, *_MOMENTS, "first_bytes_per_second")},
            "rate_changes": [asdict(change) for change in self.rate_changes],
        }

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> Self:
        """The lease out of parsed JSON. Raises ArtifactError naming what is wrong."""
        problem = next(_lease_problems(document), None)
        if problem is not None:
            raise ArtifactError(
                f"The throttle lease cannot be used: {problem}. No throttle was changed. What this run set stays until "
                "somebody removes it: compare the throttle configs of brokers and topics with the run's log."
            )
        return cls(
            run=document["run"],
            candidate_digest=document["candidate_digest"],
            bytes_per_second=document["bytes_per_second"],
            wanted={entity: dict(values) for entity, values in document["wanted"].items()},
            prior={entity: dict(values) for entity, values in document["prior"].items()},
            rate_changes=tuple(RateChange(**change) for change in document.get("rate_changes", ())),
            first_bytes_per_second=document.get("first_bytes_per_second"),
            handed_over_at=document.get("handed_over_at"),
            suspended_at=document.get("suspended_at"),
            released_at=document.get("released_at"),
            **{name: document.get(name, "") for name in _WHERE},
        )


def list_entries(value: str | None, key: str) -> tuple[str, ...]:
    """The entries of a list of throttled replicas; none where the key is not set. Raises KafkaRuleError."""
    return () if value is None else parse_throttled_replicas(value, key)


def _lease_problems(document: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a lease, in the order in which it can be looked at; nothing if it can be used."""
    if not isinstance(document, Mapping):
        yield "it is not an object"
        return
    for name in ("run", "candidate_digest"):
        if not isinstance(document.get(name), str) or not document[name]:
            yield f"{name} is {document.get(name)!r}, it must be text"
    for name in _WHERE:
        if not isinstance(document.get(name, ""), str):
            yield f"{name} is {document[name]!r}, it must be text"
    for name in _MOMENTS:
        if not isinstance(document.get(name), str | None):
            yield f"{name} is {document[name]!r}, it must be a time or null"
    if not _is_rate(document.get("bytes_per_second")):
        yield f"bytes_per_second is {document.get('bytes_per_second')!r}, it must be a positive integer"
    first = document.get("first_bytes_per_second")
    if first is not None and not _is_rate(first):
        yield f"first_bytes_per_second is {first!r}, it must be a positive integer"
    changes = document.get("rate_changes", [])
    if not isinstance(changes, list) or not all(map(_is_rate_change, changes)):
        yield "rate_changes is not a list of changes of the rate"
    yield from _config_problems(document)
    own = {str(rate) for rate in (document["bytes_per_second"], first, *(c["bytes_per_second"] for c in changes))}
    yield from _unknown_rates(document["wanted"], own)


def _unknown_rates(wanted: Mapping[str, Mapping[str, str]], own: Collection[str]) -> Iterator[str]:
    """A rate that is not known as ours would be taken for somebody else's, and left behind."""
    for entity, values in wanted.items():
        for key, value in values.items():
            if key in RATE_KEYS and value not in own:
                yield f"wanted of {entity} has {key} = {value!r}, which is no rate of this lease"


def _config_problems(document: Mapping[str, Any]) -> Iterator[str]:
    for part in ("wanted", "prior"):
        entities = document.get(part)
        if not isinstance(entities, Mapping) or not all(isinstance(values, Mapping) for values in entities.values()):
            yield f"{part} is not an object of objects"
            return
        for entity, values in entities.items():
            if not _ENTITY.fullmatch(entity):
                yield f"{part} names {entity!r}, which is neither topics/T nor brokers/N"
            keys = LIST_KEYS if entity.startswith("topics/") else RATE_KEYS
            for key, value in values.items():
                fits = _is_ours(key, value) if part == "wanted" else value is None or isinstance(value, str)
                if key not in keys or not fits:
                    yield f"{part} of {entity} has {key} = {value!r}"
    wanted, prior = document["wanted"], document["prior"]
    if {entity: set(values) for entity, values in wanted.items()} != {e: set(values) for e, values in prior.items()}:
        yield "wanted and prior do not name the same keys"


def _is_rate(value: object) -> bool:
    return type(value) is int and 1 <= value <= _LARGEST_RATE


def _is_rate_change(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and set(value) == {"bytes_per_second", "by", "at"}
        and _is_rate(value["bytes_per_second"])
        and all(isinstance(value[name], str) for name in ("by", "at"))
    )


def _is_ours(key: str, value: object) -> bool:
    """Whether this program sets such a value: a positive rate, or a list of single replicas."""
    form = _OWN_LIST if key in LIST_KEYS else _OWN_RATE
    return isinstance(value, str) and form.fullmatch(value) is not None
