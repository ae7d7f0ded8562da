"""snapshot.json: a run's cluster, who asked for the run and why, and what the snapshot found beside its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_rebalance.documents.json_files import SNAPSHOT, JsonFile, Time
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.partition import TopicPartition

_TIERED_KEPT = 10  # topics that are named


@dataclass(frozen=True, slots=True)
class AskedWindow:
    not_before: Time | None = None
    finish_by: Time | None = None
    recurring: tuple[str, ...] = ()  # the policy's, if the run takes them


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


@dataclass(frozen=True, slots=True)
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
    settings: Mapping[str, Any]
    policy: Mapping[str, Any] | None = None  # None: the cluster is read-only
    missing_rights: tuple[Finding, ...] = ()  # this connection could not execute a plan
    requested_by: str | None = None
    reason: str = ""
    controller: Mapping[str, Any] | None = None  # see `documents.controller`
    window: AskedWindow | None = None
    automatic_elections: AutomaticElections | None = None
    kept_away: KeptAway | None = None  # None: every broker that may receive may get every replica
    last_proposal: LastProposal | None = None  # None: there is none
    other_policies: tuple[str, ...] = ()  # connections to the same cluster with other policies, whose limits count too
    tiered: TieredTopics | None = None  # None: no topic is
    cordon: Cordon | None = None  # None: the policy asks for none, or no broker leaves


SNAPSHOT_FILE = JsonFile(SNAPSHOT, SnapshotTaken)
