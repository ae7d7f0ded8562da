"""snapshot.json: a run's cluster, who asked for the run and why, and what the snapshot found beside its tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kafka_rebalance.documents.json_files import (
    CONFIGS,
    SETTINGS,
    SNAPSHOT,
    JsonFile,
    Time,
    omitted,
    read_json,
    write_json,
)
from kafka_rebalance.documents.progress import OftenSlow
from kafka_rebalance.documents.proposals import FirstFull, FullestDisk
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.kafka.segment_roll import (
    BROKER_KEYS,
    REMOTE_STORAGE,
    TOPIC_KEYS,
    EffectiveRollSettings,
    effective_roll_settings,
)
from kafka_rebalance.kafka.versions import major_minor
from kafka_rebalance.model.cluster_view import ClusterView, ConfigsByBroker, SettledController
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import Settings

_TIERED_KEPT = 10  # topics that are named


@dataclass(frozen=True, slots=True)
class AskedWindow:
    not_before: Time | None = None
    finish_by: Time | None = None
    recurring: tuple[str, ...] = omitted(())  # the policy's, if the run takes them


@dataclass(frozen=True, slots=True)
class AutomaticElections:
    """`brokers` elect preferred leaders by themselves while they are controller, every `check_seconds`, if known."""

    brokers: tuple[int, ...]
    check_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class KeptAway:
    """So many replicas do not go back to the brokers from which plans of so many days have taken them."""

    replicas: int
    days: int


@dataclass(frozen=True, slots=True)
class Cordon:
    """Brokers to be emptied, where the policy has `cordon_leaving`.

    The run cordons `brokers`. `cannot` are those of which Kafka does not let it, with Kafka's words, if it has any.
    """

    brokers: tuple[int, ...] = ()
    cannot: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LastProposal:
    """The cluster's proposal before this one, of the same job, whose moves are not all made yet.

    `unread` says why its lists could not be read, and so do not count.
    """

    run_id: str | None  # None: the ledger cannot be read
    observed_at: Time | None  # its snapshot
    unread: str | None = None


@dataclass(frozen=True, slots=True)
class GivesBack:
    """The demote whose leaders this run elects again. `left_out` says of each partition that stays why."""

    run_id: str
    digest: str  # of the candidate that the demote has carried out
    brokers: tuple[int, ...]  # that led nothing after it
    partitions: int
    unchanged: int  # partitions that have their recorded list
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AskedFor:
    """Whether no person started a run, and who asked another run for its plan."""

    automatic: bool
    plan_by: str | None = None


@dataclass(frozen=True, slots=True)
class TieredTopic:
    """One replica of each of its partitions. Records are offsets; of those that are remote no broker's disk has any.

    None: not told of each partition. `untold` says of one of them why.
    """

    topic: str
    local_bytes: int
    local_records: int | None = None
    remote_records: int | None = None
    untold: str | None = None


@dataclass(frozen=True, slots=True)
class TieredTopics:
    """How many topics of the cluster are tiered, of how many a part is unknown, and those with most bytes on disk."""

    topics: int
    unknown: int
    largest: tuple[TieredTopic, ...]


def tiered_topics(rows: Iterable[Mapping[str, Any]], untold: Mapping[TopicPartition, str]) -> TieredTopics | None:
    """Of rows of the table `partitions`; None if no topic is tiered. `untold`: why it is unknown, where brokers say."""
    of_topic: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["tiered"]:
            of_topic.setdefault(row["topic"], []).append(row)
    why: dict[str, str] = {tp.topic: reason for tp, reason in sorted(untold.items())}
    topics = [_tiered_topic(topic, of_topic[topic], why.get(topic)) for topic in sorted(of_topic)]
    unknown = sum(topic.remote_records is None for topic in topics)
    largest = sorted(topics, key=lambda topic: -topic.local_bytes)[:_TIERED_KEPT]
    return TieredTopics(len(topics), unknown, tuple(largest)) if topics else None


def _tiered_topic(topic: str, rows: Sequence[Mapping[str, Any]], untold: str | None) -> TieredTopic:
    size_bytes = sum(row["size_bytes"] or 0 for row in rows)
    if any(row.get("remote_records") is None for row in rows):
        return TieredTopic(topic, size_bytes, untold=untold or "the leader of a partition does not tell its offsets")
    local, remote = (sum(row[f"{tier}_records"] for row in rows) for tier in ("local", "remote"))
    return TieredTopic(topic, size_bytes, local, remote)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTaken:
    """Older versions lack the keys that have a default."""

    connection_id: str
    cluster_id: str
    dag_id: str
    run_id: str
    observed_at: Time
    brokers: int
    partitions: int
    cluster_bytes: int
    settings: Mapping[str, Any]  # see `asked`
    throttle: str | None = None  # `auto`: the run finds the rate once it has a plan
    policy: Mapping[str, Any] | None = None  # None: the cluster is read-only
    policy_digest: str | None = None
    missing_rights: tuple[Finding, ...] = omitted(())  # this connection could not execute a plan
    requested_by: str | None = None
    requester: AskedFor | None = None
    reason: str = ""
    controller: ControllerFound | None = None
    window: AskedWindow | None = None
    automatic_elections: AutomaticElections | None = None
    slow_brokers: tuple[OftenSlow, ...] = omitted(())  # that receive nothing, as the policy says
    kept_away: KeptAway | None = omitted()  # None: every broker that may receive may get every replica
    last_proposal: LastProposal | None = omitted()  # None: there is none
    other_policies: tuple[str, ...] = omitted(())  # connections to this cluster with other policies, which count too
    tiered: TieredTopics | None = omitted()  # None: no topic is
    cordon: Cordon | None = omitted()  # None: the policy asks for none, or no broker leaves
    gives_back: GivesBack | None = omitted()  # None: the run was not asked to
    approves_give_back: bool = omitted(False)  # who approves this demote approves giving leadership back too
    snapshot_digest: str | None = None  # of the two tables
    configs_digest: str | None = None  # of configs.json
    versions: Mapping[str, str] = field(default_factory=dict)
    nonce: str | None = None

    @property
    def asked(self) -> Settings:
        """The settings as the file has them. Raises SettingsError."""
        return Settings.from_document(self.settings)

    @property
    def asked_by(self) -> str | None:
        """Who asked for the run, or for its plan, by this file alone."""
        return (self.requester and self.requester.plan_by) or self.requested_by


SNAPSHOT_FILE = JsonFile(SNAPSHOT, SnapshotTaken)


# settings.json: the settings alone, for the planner.


def write_settings(folder: Folder, settings: Settings) -> None:
    write_json(folder, SETTINGS, settings.to_mapping())


def read_settings(folder: Folder) -> Settings:
    """Errors as in `read_json`, and SettingsError."""
    return Settings.from_document(read_json(folder, SETTINGS))


# `disks` of verdict.json: how full the disks of a cluster are, and which is full first.


@dataclass(frozen=True, slots=True)
class FullestLogDir:
    broker: int
    path: str
    used_bytes: int
    total_bytes: int

    @property
    def used_share(self) -> float:
        return self.used_bytes / self.total_bytes


@dataclass(frozen=True, slots=True)
class Disks:
    """`first_full` None: with `growth_is_known` no disk fills up; else the ledger has too few samples to tell."""

    fullest: FullestDisk | None = None  # by all log dirs of a broker together; None: no size is known
    first_full: FirstFull | None = None
    growth_is_known: bool = False
    fullest_log_dir: FullestLogDir | None = omitted()  # None: no broker tells the sizes of several

    @property
    def worst(self) -> FullestDisk | FullestLogDir | None:
        """The log dir if it is fuller than every disk as a whole, else the fullest disk."""
        known = [disk for disk in (self.fullest, self.fullest_log_dir) if disk is not None]
        return max(known, key=lambda disk: disk.used_share, default=None)  # the first of equals


# What snapshot.json and verdict.json say of the controller: who, since when, whether settled, which requests wait.


NAMES_SHOWN = 10  # of each queue; the rest is only counted


@dataclass(frozen=True, slots=True)
class Queue:
    """Requests of one kind that wait for the controller: how many, and the names of the first."""

    count: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Queues:
    reassignments: Queue
    elections: Queue
    deletions: Queue


@dataclass(frozen=True, slots=True)
class ControllerFound:
    """The controller when the snapshot was taken; `epochs_read` are the epochs of the two reads that found it settled.

    `host` is None if its listeners name none, `since` if the znode has no time.
    """

    broker: int
    host: str | None
    since: Time | None
    epoch: int
    kraft_epoch: int
    epochs_read: tuple[int, int]
    queued: Queues

    @property
    def elections(self) -> int:
        """How many there were between the two reads."""
        return self.epochs_read[1] - self.epochs_read[0]


def controller_document(view: ClusterView, settled: SettledController) -> ControllerFound | None:
    """None: there is no controller."""
    controller = view.controller
    if controller is None:
        return None
    registration = view.brokers.get(controller.broker)
    hosts = [endpoint.host for endpoint in registration.endpoints if endpoint.host] if registration else []
    since = controller.since_ms
    return ControllerFound(
        controller.broker,
        hosts[0] if hosts else None,
        None if since is None else datetime.fromtimestamp(since // 1000, UTC),
        controller.epoch,
        controller.kraft_epoch,
        settled.epochs,
        Queues(
            _queue(view.moving),
            _queue(view.elections or ()),
            _queue(view.deletions),
        ),
    )


def _queue(named: Collection[TopicPartition] | Collection[str]) -> Queue:
    return Queue(len(named), tuple(map(str, sorted(named)[:NAMES_SHOWN])))


# configs.json: a cluster's configs as one look found them, and what each broker applies to each topic.


PROTOCOL_VERSION = "inter.broker.protocol.version"
_COUNT = frozenset((*BROKER_KEYS, *TOPIC_KEYS.values(), REMOTE_STORAGE))


@dataclass(frozen=True, slots=True)
class ClusterConfigs:
    topics: Mapping[str, Mapping[str, str]]  # as set in ZooKeeper
    brokers: ConfigsByBroker  # what applies, as each broker reports it; without brokers that were not asked
    broker_dynamic: Mapping[int, Mapping[str, str]] = field(default_factory=dict)  # as set in ZooKeeper
    append_bytes: Mapping[str, int] = field(default_factory=dict)  # the least of an ordinary append, where known
    lock_holder: str | None = None  # the run that holds the cluster
    # A big cluster has a million pairs of topic and broker, but few differ in what counts. So each topic and broker
    # gets the number of its kind, and each pair of kinds is computed once.
    _kinds: dict[Any, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _found: dict[tuple[int, int], EffectiveRollSettings] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def version(self) -> str:
        """The newest Kafka release that a broker speaks, as in `2.8`; 3.9 if no broker reports it."""
        told = [values.get(PROTOCOL_VERSION, (None, ""))[0] for values in self.brokers.values()]
        major, minor = max((major_minor(version) for version in told if version), default=(3, 9))
        return f"{major}.{minor}"

    def roll_settings(self, topic: str, broker: int) -> EffectiveRollSettings:
        """What this broker applies to this topic.

        Raises KafkaRuleError for a value that brokers cannot load, ReadError if the broker does not report a setting.
        """
        pair = self._kind(topic), self._kind(broker)
        if pair not in self._found:
            self._found[pair] = effective_roll_settings(self.topics.get(topic, {}), self.brokers.get(broker, {}))
        return self._found[pair]

    def _kind(self, name: str | int) -> int:
        kind = self._kinds.get(name)
        if kind is None:
            configs: Mapping[Any, Mapping[str, object]] = self.topics if isinstance(name, str) else self.brokers
            counts = frozenset((key, value) for key, value in configs.get(name, {}).items() if key in _COUNT)
            kind = self._kinds[name] = self._kinds.setdefault(counts, len(self._kinds))
        return kind


CONFIGS_FILE = JsonFile(CONFIGS, ClusterConfigs)
