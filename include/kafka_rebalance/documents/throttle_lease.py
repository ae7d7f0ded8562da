"""A cluster's throttle lease: who throttles since when, with what, and what was there before.

Each cluster has one lease. It is kept outside Airflow's database, so that a deleted run does not take along the values
from before its throttle. This module holds plain values; `throttle.lease_copies` reads and writes them. A run's
folder has a copy, throttle.json, for its page and for people.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from kafka_rebalance.documents.json_files import THROTTLE, JsonFile, decode, omitted, time_in
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.kafka.given_json import LONG_MAX
from kafka_rebalance.kafka.throttles import (
    BROKER_KEYS,
    CORDON,
    EVERY_LOG_DIR,
    EVERY_REPLICA,
    LIST_KEYS,
    parse_throttled_replicas,
)

_ENTITY = re.compile(r"topics/(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}|brokers/(?:0|[1-9][0-9]{0,9})", re.ASCII)
# This program writes a list in this one form.
_OWN_LIST = re.compile(r"[0-9]{1,10}:[0-9]{1,10}(?:,[0-9]{1,10}:[0-9]{1,10})*", re.ASCII)
_OF_BROKERS = (*BROKER_KEYS, CORDON)
_UNUSABLE = "The throttle lease cannot be used"
_REMEDY = (
    "No throttle was changed. What this run set stays until somebody removes it: compare the throttle configs of "
    "brokers and topics with the run's log."
)


@dataclass(frozen=True, slots=True)
class RateChange:
    """Another rate while the run goes on: who asked for it, and when (ISO 8601)."""

    bytes_per_second: int
    by: str
    at: str

    @property
    def changed_at(self) -> datetime | None:
        """None if `at` is no time."""
        return time_in(self.at)


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What a run has left on brokers that were away. `prior` is entity -> key -> what was there before it."""

    run: str
    rates: tuple[int, ...]  # every rate that it may have set there, in bytes per second
    prior: Mapping[str, Mapping[str, str | None]]


@dataclass(frozen=True, slots=True)
class ThrottleLease:
    """Who throttles, with what, and what was there before.

    `wanted` is entity -> key -> value; a list's entries are comma-separated. `prior` has the same entities and keys;
    None means that the key was not there. Times are ISO 8601.
    """

    run: str  # Dag id and run id
    candidate_digest: str
    bytes_per_second: int  # now; the approved one is `taken_at_rate`. Of a range the highest
    wanted: Mapping[str, Mapping[str, str]]
    prior: Mapping[str, Mapping[str, str | None]]
    owner: str = ""  # which Airflow, as in the lock
    connection_id: str = ""
    cluster_id: str = ""
    run_folder: str = ""
    taken_at: str = ""
    taken_under: str = ""  # generation of the fence when the run last took the lease
    generation: str = ""  # of the fence under which this was written; empty if an older version wrote it
    first_bytes_per_second: int | None = None  # if the rate was changed since
    rate_changes: tuple[RateChange, ...] = ()
    # Of a range, every rate that the run may give a broker, ascending; empty: the approval has one rate. `wanted` has
    # the lowest, with which each broker begins.
    ladder: tuple[int, ...] = omitted(())
    handed_over_at: str | None = None  # the run gave up with copies in flight: the janitor keeps the throttle
    suspended_at: str | None = None  # put back while the next batch waits; none of it need be in force
    released_at: str | None = None  # everything is as it was before, but for `left_behind`
    # What was there before on brokers that were away when the rest was put back. It is put back when they return.
    left_behind: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    left_before: tuple[LeftBehind, ...] = ()  # by the leases before this one, the earliest first
    # Until then a worker that stood still may yet set what it decided before the release; None: no longer, or never.
    late_until: str | None = None

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose partitions `copying_of` needs."""
        return frozenset(entity.partition("/")[2] for entity in self.wanted if entity.startswith("topics/"))

    @property
    def taken_at_rate(self) -> int:
        """The rate that was approved, in bytes a second."""
        return self.bytes_per_second if self.first_bytes_per_second is None else self.first_bytes_per_second

    @property
    def adapts(self) -> bool:
        """Whether the run itself chooses each broker's rate of the ladder. A rate that a person sets ends that."""
        return bool(self.ladder) and not self.rate_changes

    @property
    def lowest_rate(self) -> int:
        """The rate at which a broker may stay for as long as the run lasts: the lowest of a range."""
        return self.ladder[0] if self.adapts else self.bytes_per_second

    @property
    def rate_in_words(self) -> str:
        """`8000000 bytes/s`, or of a range `1000000 to 8000000 bytes/s`."""
        lowest = f"{self.lowest_rate} to " if self.adapts else ""
        return f"{lowest}{self.bytes_per_second} bytes/s"

    @property
    def is_set(self) -> bool:
        """Whether the throttle need be in force."""
        return self.released_at is None and self.suspended_at is None

    @property
    def brokers(self) -> int:
        """How many brokers are throttled."""
        return sum(entity.startswith("brokers/") for entity in self.wanted)

    @property
    def own_rates(self) -> frozenset[str]:
        """Every rate that this lease may have set. A change that breaks off leaves some brokers at the rate before.
        Each broker may have another one of the ladder.
        """
        changed = (change.bytes_per_second for change in self.rate_changes)
        return frozenset(map(str, (self.taken_at_rate, self.bytes_per_second, *changed, *self.ladder)))

    def may_have_set(self, key: str, value: str | None) -> bool:
        """Whether a key of a broker has a value that this lease may have set there."""
        return value in ((EVERY_LOG_DIR,) if key == CORDON else self.own_rates)

    @property
    def all_left(self) -> tuple[LeftBehind, ...]:
        """What this lease and those before it have left on brokers that were away, the earliest first."""
        if not self.left_behind:
            return self.left_before
        own = LeftBehind(self.run, tuple(sorted(map(int, self.own_rates))), self.left_behind)
        return (*self.left_before, own)

    def without(self, entities: Collection[str]) -> Self:
        """The lease for its other entities."""
        kept = {entity for entity in self.wanted if entity not in entities}
        return replace(
            self,
            wanted={entity: self.wanted[entity] for entity in self.wanted if entity in kept},
            prior={entity: self.prior[entity] for entity in self.prior if entity in kept},
        )

    def without_left(self, entities: Collection[str]) -> Self:
        """The lease with what is left behind on other brokers."""
        kept = [
            replace(rest, prior={entity: values for entity, values in rest.prior.items() if entity not in entities})
            for rest in self.left_before
        ]
        own = {entity: values for entity, values in self.left_behind.items() if entity not in entities}
        return replace(self, left_before=tuple(rest for rest in kept if rest.prior), left_behind=own)

    def own_entries(self, entity: str, key: str) -> tuple[str, ...]:
        """The entries of a list that this run adds. Entries that were there before, also by `*`, are not ours."""
        before = list_entries(self.prior[entity][key], key)
        if before == (EVERY_REPLICA,):
            return ()
        return tuple(entry for entry in list_entries(self.wanted[entity][key], key) if entry not in before)

    def to_mapping(self) -> dict[str, Any]:
        changes, before = [asdict(change) for change in self.rate_changes], [asdict(rest) for rest in self.left_before]
        written = {**asdict(self), "rate_changes": changes, "left_before": before}
        return written if self.ladder else {key: value for key, value in written.items() if key != "ladder"}

    @classmethod
    def from_mapping(cls, document: object) -> Self:
        """The lease from parsed JSON. Raises ArtifactError naming what is wrong."""
        lease = decode(cls, document, _UNUSABLE, _REMEDY)
        check_lease(lease)
        return lease


def lease_file(name: str) -> JsonFile[ThrottleLease]:
    return JsonFile(name, ThrottleLease, _REMEDY)


THROTTLE_FILE = lease_file(THROTTLE)


def check_lease(lease: ThrottleLease) -> None:
    """Raises ArtifactError unless these are throttles that a run may have set, and may put back."""
    problem = next(_problems(lease), None)
    if problem is not None:
        raise ArtifactError(f"{_UNUSABLE}: {problem}. {_REMEDY}")


def list_entries(value: str | None, key: str) -> tuple[str, ...]:
    """The entries of a list of throttled replicas; none if the key is not set. Raises KafkaRuleError."""
    return () if value is None else parse_throttled_replicas(value, key)


def _problems(lease: ThrottleLease) -> Iterator[str]:
    for name in ("run", "candidate_digest"):
        if not getattr(lease, name):
            yield f"{name} is empty"
    for rate in map(int, lease.own_rates):
        if not 1 <= rate <= LONG_MAX:
            yield f"bytes_per_second is {rate}, it must be positive and at most {LONG_MAX}"
    configs: dict[str, Mapping[str, Mapping[str, str | None]]] = {"wanted": lease.wanted, "prior": lease.prior}
    for part, entities in configs.items():
        for entity, values in entities.items():
            if not _ENTITY.fullmatch(entity):
                yield f"{part} names {entity!r}, which is neither topics/T nor brokers/N"
            keys = LIST_KEYS if entity.startswith("topics/") else _OF_BROKERS
            for key, value in values.items():
                if key not in keys or (part == "wanted" and not _is_ours(lease, key, value or "")):
                    yield f"{part} of {entity} has {key} = {value!r}"
    for entity, values in (item for rest in lease.all_left for item in rest.prior.items()):
        if not entity.startswith("brokers/") or not _ENTITY.fullmatch(entity) or not set(values) <= set(_OF_BROKERS):
            yield f"left_behind has {entity!r}"
    wanted, prior = ({entity: set(values) for entity, values in part.items()} for part in configs.values())
    if wanted != prior:
        yield "wanted and prior do not name the same keys"


def _is_ours(lease: ThrottleLease, key: str, value: str) -> bool:
    """Whether this lease may have set this value. Any other would be taken for somebody else's, and stay behind."""
    return lease.may_have_set(key, value) if key in _OF_BROKERS else _OWN_LIST.fullmatch(value) is not None
