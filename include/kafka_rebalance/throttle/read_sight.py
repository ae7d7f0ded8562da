"""Reads what a run with a range of rates looks at: the whole cluster, its consumer groups and its metrics server.

Each part that cannot be read is named in the sight, and the others count all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from kafka_rebalance.admin import out_of_sync
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.errors import AuthenticationError, ReadError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.checks.in_sync import MIN_INSYNC_REPLICAS
from kafka_rebalance.throttle.adaptive_rate import (
    ANSWERS,
    ISR,
    LAGS,
    LATENCY,
    NETWORK,
    GroupLag,
    ShortPartition,
    Sight,
)

T = TypeVar("T")
_QUERY_SECONDS = 10.0


def read_sight(
    connection: ClusterConnection,
    cluster: OpenCluster,
    at: float,
    *,
    brokers: Collection[int],
    moves: Sequence[Move],
    given_up: Collection[int],
) -> Sight:
    """What the cluster shows. `brokers`: those of the run that are alive. `moves`: in flight.

    What the run explains does not count: replicas that its moves add, and those on brokers that it has `given_up`.
    Raises AuthenticationError.
    """
    incoming = {move.topic_partition: move.added for move in moves}
    unread: dict[str, str] = {}

    def part(name: str, read: Callable[[], T], unknown: T) -> T:
        try:
            return read()
        except AuthenticationError:
            raise
        except ReadError as why:
            unread[name] = str(why)
            return unknown

    server = connection.metrics
    return Sight(
        at=at,
        copying=frozenset(broker for move in moves if move.added for broker in (*move.before, *move.added)),
        short=part(ISR, lambda: _read_short(connection, cluster, incoming, given_up), None),
        answers=part(ANSWERS, lambda: out_of_sync.read_answer_seconds(connection.kafka, brokers), {}),
        lags=part(LAGS, lambda: _read_lags(connection, cluster), None),
        network={}
        if server is None or server.network_use is None
        else part(NETWORK, lambda: _measured(connection, NETWORK, at, brokers), None),
        latency={}
        if server is None or server.produce_latency is None
        else part(LATENCY, lambda: _measured(connection, LATENCY, at, brokers), None),
        unread=unread,
    )


def _read_short(
    connection: ClusterConnection,
    cluster: OpenCluster,
    incoming: Mapping[TopicPartition, Collection[int]],
    given_up: Collection[int],
) -> tuple[ShortPartition, ...]:
    missing: dict[TopicPartition, tuple[int, ...]] = {}
    found = out_of_sync.read_out_of_sync(connection.kafka)
    for tp, one in found.items():
        explained = {*one.isr, *incoming.get(tp, ()), *given_up}
        if unexplained := tuple(broker for broker in one.replicas if broker not in explained):
            missing[tp] = unexplained
    if not missing:
        return ()
    eligible = out_of_sync.read_eligible(connection.kafka, missing)
    least = _read_min_in_sync(connection, cluster, {tp: found[tp].leader for tp in missing})
    return tuple(
        ShortPartition(
            tp,
            found[tp].leader,
            missing[tp],
            len(found[tp].isr),
            least.get(tp),
            eligible.get(tp, 0),
        )
        for tp in sorted(missing)
    )


def _read_min_in_sync(
    connection: ClusterConnection, cluster: OpenCluster, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """`min.insync.replicas` of each: of its topic, else of its leader, else of any broker that tells it."""
    from kafka_rebalance.admin import configs

    own = cluster.read_topic_configs({tp.topic for tp in leaders})
    asked = {leader for leader in leaders.values() if leader >= 0} or cluster.read_batch_view(()).brokers
    told = configs.read_effective_configs(connection.kafka, sorted(asked), of_the_rest=True)
    by_broker = {broker: values.get(MIN_INSYNC_REPLICAS, (None, ""))[0] for broker, values in told.items()}
    usual = max((int(text) for text in by_broker.values() if text and text.isdecimal()), default=None)
    found: dict[TopicPartition, int] = {}
    for tp, leader in leaders.items():
        text = own.get(tp.topic, {}).get(MIN_INSYNC_REPLICAS) or by_broker.get(leader)
        value = int(text) if text and text.isdecimal() else usual
        if value is not None:
            found[tp] = value
    return found


def _read_lags(connection: ClusterConnection, cluster: OpenCluster) -> dict[str, GroupLag]:
    from kafka_rebalance.admin import groups, offsets

    committed = groups.read_committed_offsets(connection.kafka, sorted(cluster.read_batch_view(()).brokers))
    ends = offsets.read_end_offsets(connection.kafka, committed, of_the_rest=True) if committed else {}
    read: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for tp, by_group in committed.items():
        for group, offset in by_group.items():
            if tp in ends:
                read[group] += offset
                left[group] += max(0, ends[tp] - offset)
    return {group: GroupLag(read[group], left[group]) for group in read}


def _measured(connection: ClusterConnection, name: str, at: float, brokers: Collection[int]) -> dict[int, float]:
    """A series without the label `broker` is of all brokers. Raises ReadError also for an answer without series."""
    from kafka_rebalance.metrics_server import query_now  # loads numpy

    assert connection.metrics is not None
    query = {NETWORK: connection.metrics.network_use, LATENCY: connection.metrics.produce_latency}[name]
    assert query is not None
    found: dict[int, float] = {}
    for labels, value in query_now(connection.metrics, query, int(at), _QUERY_SECONDS):
        label = labels.get("broker")
        of = brokers if label is None else [broker for broker in brokers if str(broker) == label]
        for broker in of:
            found[broker] = max(value, found.get(broker, value))
    if untold := sorted(set(brokers) - found.keys()):
        raise ReadError(
            f"The metrics server {connection.metrics.url} gives nothing for {name} of broker {some(untold)}. Correct "
            "the query in metrics_secret_config of the Airflow connection: one series for each broker, with the label "
            "broker."
        )
    return found
