"""Whether a cluster can be planned and moved: what is under way, away, mixed, or moved by others by themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import Any

from kafka_rebalance.documents.snapshot import AutomaticElections
from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.model.cluster_view import ClusterView, ConfigsByBroker
from kafka_rebalance.model.finding import Finding, listed, some
from kafka_rebalance.model.partition import PartitionView, TopicPartition
from kafka_rebalance.moves.run_position import WhoMoves, how_it_ends, nobody_known
from kafka_rebalance.moves.stuck_request import request_of_what_is_gone

# Whether the cluster as a whole may be planned on, or written to.


def refuse(findings: Iterable[Finding]) -> None:
    """Raises ClusterNotReadyError with every finding, if there is one."""
    findings = tuple(findings)
    if findings:
        listed = "\n".join(f"- {finding}" for finding in findings)
        raise ClusterNotReadyError(f"The cluster is not ready, so this task does not go on.\n{listed}")


def readiness_findings(
    view: ClusterView,
    *,
    expected_cluster_id: str | None = None,
    may_be_down: Collection[int] = frozenset(),
    topics: Collection[str] | None = None,
    own: Collection[TopicPartition] = (),
    who_moves: WhoMoves = nobody_known,
    needed: Collection[TopicPartition] = (),
) -> tuple[Finding, ...]:
    """Every reason why a run may not plan or write now.

    `may_be_down`: brokers that are to be emptied or replaced, so they may be away. `topics`: look for partitions
    without a leader, brokers that are down and deletions only there; None: everywhere. `own`: what the run moves.
    `needed`: the moves of a plan. What else waits for brokers that may be down (`waiting_for`) is no finding.
    """
    waits = waiting_for(view, may_be_down)
    if needed:
        stuck = {tp.topic for tp in needed if tp in waits}
        waits = {tp: away for tp, away in waits.items() if tp not in needed and tp.topic not in stuck & view.deletions}
    partitions = {tp: p for tp, p in view.partitions.items() if topics is None or tp.topic in topics}
    return (
        *_identity(view, expected_cluster_id),
        *_controller(view),
        *_reassignments(view, own, who_moves),
        *_requests(view, topics, {tp.topic for tp in waits}),
        *_leaderless(view, {tp: p for tp, p in partitions.items() if tp not in waits}),
        *_down(view, partitions, may_be_down),
    )


def _identity(view: ClusterView, expected: str | None) -> Iterable[Finding]:
    if expected is not None and view.cluster_id != expected:
        yield Finding(
            f"cluster {view.cluster_id}",
            f"the connection expects cluster {expected}",
            "Correct the addresses, or expected_cluster_id, of the connection",
        )


def _controller(view: ClusterView) -> Iterable[Finding]:
    controller = view.controller
    if controller is None:
        subject = "/controller" if view.traits.has_request_znode else "controller"
        yield Finding(subject, "there is no controller", "Wait until one is elected; see the logs of those who may be")
        return
    if controller.kraft_epoch >= 0:
        yield Finding(
            "/controller",
            f"a KRaft controller owns the cluster (epoch {controller.kraft_epoch}): somebody migrates it off ZooKeeper",
            "Use Kafka's own reassignment API until the migration is over",
        )
    elif controller.broker not in view.brokers.keys() | view.voters:
        yield Finding(
            f"controller {controller.broker}",
            "it is not a registered broker",
            "Wait until a registered broker is elected; see the brokers' logs",
        )


def _reassignments(view: ClusterView, own: Collection[TopicPartition], who_moves: WhoMoves) -> Iterable[Finding]:
    gone = request_of_what_is_gone(view)
    if gone is not None:
        yield gone
    elif view.reassignments is not None:
        what = some(sorted(view.reassignments)) if view.reassignments else "it is empty, and still blocks every request"
        yield Finding(
            "/admin/reassign_partitions",
            f"a reassignment is under way ({what})",
            "Wait for its end. If it makes no progress, see the controller's log. Do not delete the znode: that "
            "cancels nothing",
        )
    moving = (tp for tp, partition in view.partitions.items() if partition.in_motion and tp not in own)
    yield from moving_by_api(moving, who_moves)


def moving_by_api(partitions: Iterable[TopicPartition], who_moves: WhoMoves = nobody_known) -> Iterable[Finding]:
    """The finding about partitions to which Kafka adds replicas, or from which it removes some (2.4+)."""
    moving = sorted(partitions)
    if moving:
        yield Finding(
            "reassignments",
            f"replicas are being added or removed ({some(moving)})",
            how_it_ends(moving, who_moves),
        )


def _requests(view: ClusterView, topics: Collection[str] | None, waiting: Collection[str]) -> Iterable[Finding]:
    if view.elections is not None:
        yield Finding(
            "/admin/preferred_replica_election",
            f"a preferred election is under way ({some(sorted(view.elections)) if view.elections else 'it is empty'})",
            "It ends within seconds. If it stays, it names a partition that does not exist: only another controller "
            "removes it",
        )
    deleted = sorted(
        view.deletions - set(waiting) if topics is None else view.deletions.intersection(topics) - set(waiting)
    )
    if deleted:
        yield Finding(
            "/admin/delete_topics",
            f"topics are being deleted ({some(deleted)})",
            "Wait until they are gone; deletion waits for brokers that are down",
        )


def _leaderless(view: ClusterView, partitions: Mapping[TopicPartition, PartitionView]) -> Iterable[Finding]:
    without = sorted(tp for tp, partition in partitions.items() if partition.leader not in view.brokers)
    if without:
        empty = {tp: list(partitions[tp].may_lead) for tp in without if not partitions[tp].isr}
        named = some([f"{tp} {may_lead}" for tp, may_lead in empty.items() if may_lead])
        eligible = f". Where the ISR is empty, one of these may lead: {named}" if any(empty.values()) else ""
        yield Finding(
            f"{len(without)} partition{'s' if len(without) > 1 else ''} without a live leader",
            some(without),
            f"Start the brokers of their in-sync replicas: Kafka can copy nothing without a leader{eligible}",
        )


def _down(
    view: ClusterView, partitions: Mapping[TopicPartition, PartitionView], may_be_down: Collection[int]
) -> Iterable[Finding]:
    named: dict[int, list[TopicPartition]] = {}
    for tp, partition in partitions.items():
        for broker in partition.replicas:
            if broker not in view.brokers and broker not in may_be_down:
                named.setdefault(broker, []).append(tp)
    for broker, tps in sorted(named.items()):
        yield Finding(
            f"broker {broker}",
            f"it is not registered and holds {len(tps)} replica{'s' if len(tps) > 1 else ''} ({some(sorted(tps))})",
            "Start it, or name it in drain or replace",
        )


# Whether Cruise Control works on the cluster.


# Cruise Control's own names (CruiseControlMetricsReporterConfig, KafkaSampleStore) and Strimzi's.
CRUISE_CONTROL_TOPICS = ("__CruiseControlMetrics", "__KafkaCruiseControl", "strimzi.cruisecontrol.")


def cruise_control(topics: Iterable[str], configs: ConfigsByBroker) -> Iterable[Finding]:
    """Signs of Cruise Control, which moves partitions by its own goals: its topics, and its metrics reporter."""
    signs = [f"topic {topic}" for topic in sorted(topics) if topic.startswith(CRUISE_CONTROL_TOPICS)]
    reporting = [
        broker
        for broker, values in sorted(configs.items())
        if "cruisecontrol" in (values.get("metric.reporters", (None, ""))[0] or "").lower()
    ]
    signs += [f"metric.reporters of broker {listed(reporting)}"] if reporting else []
    if signs:
        yield Finding(
            "Cruise Control",
            f"it works on this cluster ({some(signs)}): two tools that move partitions undo each other's work",
            "Pause it, and set beside_cruise_control: true in the policy. If it is gone, remove what it left behind",
        )


# Whether all brokers run the same version, and one that moves replicas between log dirs without harm.


ApiVersions = Mapping[int, Mapping[int, tuple[int, int]]]  # broker -> key of the request -> oldest and newest version
PROTOCOL = "inter.broker.protocol.version"
ELECT_LEADERS = 43  # key of a request that every broker knows from Kafka 2.2 on (KIP-183)


def mixed_versions(configs: ConfigsByBroker, apis: ApiVersions) -> Iterable[Finding]:
    """Brokers of different versions: a rolling upgrade is under way.

    In the first round of an upgrade all have the same `inter.broker.protocol.version`, and only the software differs.
    The versions of the requests that brokers speak show that. Releases that speak the same versions look the same.
    """
    protocols: dict[str, list[int]] = {}
    for broker, values in sorted(configs.items()):
        if (version := values.get(PROTOCOL, (None, ""))[0]) is not None:
            protocols.setdefault(version, []).append(broker)
    remedy = "Wait until the rolling upgrade has ended, then clear this task"
    if len(protocols) > 1:
        which = "; ".join(f"{version} on broker {listed(brokers)}" for version, brokers in sorted(protocols.items()))
        yield Finding("brokers", f"they run different {PROTOCOL}: {which}", remedy)
    speaking: dict[frozenset[tuple[int, tuple[int, int]]], list[int]] = {}
    for broker, spoken in sorted(apis.items()):
        speaking.setdefault(frozenset(spoken.items()), []).append(broker)
    if len(speaking) > 1:
        which = "; ".join(f"broker {listed(brokers)}" for brokers in speaking.values())
        different = frozenset.union(*speaking) - frozenset.intersection(*speaking)
        yield Finding(
            "brokers",
            f"they run different software: {which} speak different versions of "
            f"{len({key for key, _ in different})} of Kafka's requests",
            remedy,
        )


def harmed_by_copies_within(apis: ApiVersions) -> Iterable[Finding]:
    """Brokers below Kafka 2.2, on which a move between log dirs may cost a log dir.

    In 2.0.1 and 2.1.0 a replica keeps the epochs' file of the folder that it has left (Replica.epochs). When it becomes
    leader, the broker writes there (Partition.makeLeader), fails, and takes that log dir offline. No request tells
    2.1.0 from 2.1.1, which is sound.
    """
    older = sorted(broker for broker, spoken in apis.items() if ELECT_LEADERS not in spoken)
    if older:
        yield Finding(
            f"broker {listed(older)}",
            "runs a Kafka below 2.2. When a replica that was moved between log dirs becomes leader, Kafka 2.0.1 and "
            "2.1.0 take the log dir offline in which it lay before",
            "Upgrade to Kafka 2.2 or later first",
        )


# Whether Kafka elects preferred leaders by itself (`auto.leader.rebalance.enable`, on by default).
#
# The controller does not while any reassignment runs (KafkaController.checkAndTriggerAutoLeaderRebalance, 2.0 to 3.9).
# So it may do that before a batch, between two, and after the last. It then elects all partitions of a broker of which
# more than `leader.imbalance.per.broker.percentage` are led elsewhere, whether our plan names them or not.


ENABLED, INTERVAL = "auto.leader.rebalance.enable", "leader.imbalance.check.interval.seconds"


def automatic_elections(configs: ConfigsByBroker) -> AutomaticElections:
    """By the brokers' effective configs. A broker that does not report the setting has Kafka's default, which is to
    elect.
    """
    electing = {broker: values for broker, values in configs.items() if _value(values, ENABLED) != "false"}
    seconds = [text for values in electing.values() if (text := _value(values, INTERVAL)) and text.isdecimal()]
    return AutomaticElections(tuple(sorted(electing)), min(map(int, seconds), default=None))


def _value(values: Mapping[str, tuple[str | None, str]], key: str) -> str | None:
    return values.get(key, (None, ""))[0]


# Brokers that hold replicas and are not registered, partitions without a leader, and the cluster without them.


@dataclass(frozen=True, slots=True)
class Away:
    brokers: tuple[int, ...] = ()
    leaderless: tuple[TopicPartition, ...] = ()  # because these brokers, or log dirs, are down
    deletions: tuple[str, ...] = ()  # topics that are being deleted: the deletion waits for these brokers
    waits: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)  # what waits for which of these

    @property
    def is_empty(self) -> bool:
        return not (self.brokers or self.leaderless or self.deletions)

    def only_wait_for(self, gone: Collection[int]) -> bool:
        """Whether everything without a leader, and every deletion, waits for these brokers alone."""
        topics = {tp.topic for tp in self.waits}
        stuck = [tp for tp in self.leaderless if tp not in self.waits] + [t for t in self.deletions if t not in topics]
        return not stuck and all(set(brokers).issubset(gone) for brokers in self.waits.values())


def without_away(view: ClusterView) -> tuple[ClusterView, Away]:
    """(the cluster as if the brokers that are away held nothing, who is away).

    Partitions without a live leader are left out, since nobody reports their sizes, and topics that are being deleted.
    If nothing would be left, the view stays.
    """
    away = tuple(sorted({b for partition in view.partitions.values() for b in partition.replicas} - set(view.brokers)))
    kept = {tp: partition for tp, partition in view.partitions.items() if tp.topic not in view.deletions}
    leaderless = tuple(sorted(tp for tp, partition in kept.items() if partition.leader not in view.brokers))
    rest = {
        tp: dataclasses.replace(
            partition, replicas=tuple(broker for broker in partition.replicas if broker in view.brokers)
        )
        for tp, partition in kept.items()
        if partition.leader in view.brokers
    }
    left_out = Away(away, leaderless, tuple(sorted(view.deletions)), waiting_for(view, away))
    if left_out.is_empty or not rest:
        return view, Away()
    return dataclasses.replace(view, partitions=rest), left_out


def away_since(broker: int, checks: Iterable[Mapping[str, Any]], now: datetime) -> datetime:
    """The first of the latest checks in a row that found the broker away. It may be away for longer.

    `checks`: rows of the ledger's table `balance`, newest first. A row without brokers ends the count.
    """
    found_away = takewhile(lambda check: broker in (check["brokers_away"] or ()), checks)
    return min((check["observed_at"] for check in found_away), default=now)


# What nobody can copy, or delete, unless brokers that are away come back.


def waiting_for(view: ClusterView, may_be_down: Collection[int]) -> dict[TopicPartition, tuple[int, ...]]:
    """Partitions that nobody can copy unless these brokers come back, all of which may be down.

    No replica in sync is alive, so nobody leads them. Or their topic is being deleted, which waits for these brokers.
    """
    deleted: dict[str, set[int]] = {}
    for tp, partition in view.partitions.items():
        if tp.topic in view.deletions:
            deleted.setdefault(tp.topic, set()).update(set(partition.replicas) - view.brokers.keys())
    waits = {}
    for tp, partition in view.partitions.items():
        away = deleted.get(tp.topic, set())
        if tp.topic not in deleted and partition.leader not in view.brokers:
            is_stuck = view.brokers.keys().isdisjoint(partition.isr)  # else a leader is about to be elected
            away = set(partition.isr or partition.replicas) - view.brokers.keys() if is_stuck else set()
        if away and away.issubset(may_be_down):
            waits[tp] = tuple(sorted(away))
    return waits
