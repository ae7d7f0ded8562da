"""The quorum of controllers, and which brokers have heard all that it has written.

A broker answers from its own copy of the metadata. The copy is behind by milliseconds when the cluster is quiet, and by
more than ten seconds while brokers create thousands of logs or start. In its answer to ApiVersions a broker tells up to
which offset it has applied the metadata (KIP-584, `finalized_features_epoch`; KRaftMetadataCache.features).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.metadata import ApiVersionsRequest

import kafka_rebalance
from kafka_rebalance.admin.clients import ANOTHER_SECONDS, DEAF_SECONDS, REQUEST_SECONDS
from kafka_rebalance.admin.wire import DESCRIBE_CLUSTER, Fresh, Wire, check_read
from kafka_rebalance.errors import ClusterNotReadyError, ConnectionSettingsError, ReadError
from kafka_rebalance.model.cluster_view import Controller, SettledController

EPOCHS_OF_A_STORM = 3  # an ordinary failover between the two reads adds one, a vote that was split adds more
_FRESH_SECONDS, _PAUSE_SECONDS = 30.0, 0.02
_SILENT_SECONDS = 2.0  # a broker that does not answer for so long has gone away, and its session ends soon
_KNOWN_SECONDS = 2.0
_QUIET_SECONDS = (
    2.0  # controllers that write nothing for so long do not fill pauses (metadata.max.idle.interval.ms = 0)
)
_METADATA_TOPIC = "__cluster_metadata"
# {client: {broker that has not answered: until when others are asked first}}
_silent_until: WeakKeyDictionary[Wire, dict[int, float]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Quorum:
    """`fetched`: the offset behind the last record that each node has fetched of the metadata."""

    leader: int
    epoch: int
    voters: frozenset[int]
    fetched: Mapping[int, int]


def check_quorum_stable(wire: Wire, pause: Callable[[], None]) -> SettledController:
    """The quorum's leader, read twice with `pause` between. Raises ClusterNotReadyError, ReadError."""
    before = read_quorum(wire)
    pause()
    after = read_quorum(wire)
    if after.epoch - before.epoch > EPOCHS_OF_A_STORM:
        raise ClusterNotReadyError(
            f"The quorum's epoch grew from {before.epoch} to {after.epoch} between two reads: the controllers elect "
            "one leader after the other. See the controllers' logs."
        )
    return SettledController(Controller(after.leader, after.epoch), (before.epoch, after.epoch))


def read_quorum(wire: Wire) -> Quorum:
    """Raises ConnectionSettingsError for a cluster with ZooKeeper, ClusterNotReadyError without a leader, ReadError."""
    found = find_quorum(wire)
    if found is None:
        raise ClusterNotReadyError("The quorum of controllers has no leader. Try again when it has elected one.")
    return found


def find_quorum(wire: Wire) -> Quorum | None:
    """None: it has no leader now, or one that does not know yet where its log ends."""
    data = DescribeQuorumRequest.TopicData
    one = data.PartitionData(partition_index=0)
    try:
        request = DescribeQuorumRequest(topics=[data(topic_name=_METADATA_TOPIC, partitions=[one])])
        answer = wire.read(request, repeat_seconds=ANOTHER_SECONDS)
    except IncompatibleBrokerVersion as old:
        raise ConnectionSettingsError(
            "This cluster has no quorum of controllers: it has ZooKeeper, also while it is being migrated from there, "
            "or is below Kafka 3.3. Use a connection of type kafka_zookeeper, and after "
            "a migration kafka_admin_api."
        ) from old
    check_read("The quorum of controllers", DESCRIBE_CLUSTER, answer.error_code)
    found = answer.topics[0].partitions[0]
    check_read("The quorum of controllers", DESCRIBE_CLUSTER, found.error_code)
    fetched = {node.replica_id: node.log_end_offset for node in (*found.current_voters, *found.observers)}
    if found.leader_id < 0 or fetched.get(found.leader_id, -1) <= 0:
        return None
    voters = frozenset(voter.replica_id for voter in found.current_voters)
    return Quorum(found.leader_id, found.leader_epoch, voters, fetched)


def fresh_broker(wire: Wire, broker: int | None = None, *, anew: bool = True) -> int:
    """A broker that has applied all that the controllers have written by now. `broker`: wait for this very one.

    A broker hears of the last record with the next one, which comes within half a second. So reads that belong together
    ask `anew` once: without it, what was written `_KNOWN_SECONDS` ago will do, unless this worker has written since.

    Without a leader of the quorum nothing is written, and nobody can tell where its log ends: then it is the broker
    that was given, or the one that has applied most.

    Raises ReadError if none does within half a minute or the given one stays silent, ConnectionSettingsError.
    """
    known = wire.fresh
    if not anew and known is not None and time.monotonic() - known.at < _KNOWN_SECONDS:
        asked = known.broker if broker is None else broker
        if asked == known.broker or _applied(wire, asked) >= known.offset:
            return asked
    quorum = find_quorum(wire)
    if quorum is None or not quorum.fetched:
        return max(wire.known_brokers(), key=lambda broker: _applied(wire, broker)) if broker is None else broker
    epoch, wanted, asked_at = quorum.epoch, _last_offset(quorum), time.monotonic()
    heard_at = asked_at
    while time.monotonic() < asked_at + _FRESH_SECONDS:
        if quorum.epoch != epoch:  # what the leader before had written last may never have counted
            epoch, wanted = quorum.epoch, _last_offset(quorum)
        candidates = wire.known_brokers() & quorum.fetched.keys() if broker is None else {broker}
        for one in sorted(candidates, key=partial(_order, wire, quorum)):
            applied = _applied(wire, one)
            heard_at = time.monotonic() if applied >= 0 else heard_at
            if applied >= wanted:
                wire.fresh = Fresh(one, wanted, asked_at)
                return one
        if broker is not None and time.monotonic() - heard_at > _SILENT_SECONDS:
            raise ReadError(
                f"Broker {broker} does not answer, and its session has not ended yet. Check that "
                "the broker is up and that this host can reach it."
            )
        time.sleep(_PAUSE_SECONDS)
        quorum = find_quorum(wire) or quorum
    who = "No broker" if broker is None else f"Broker {broker}"
    raise ReadError(
        f"{who} has applied the metadata up to offset {wanted} within {_FRESH_SECONDS:.0f} s, so what brokers tell is "
        "old. Try again when the cluster is quiet; if it stays, see the brokers' logs."
    )


def _order(wire: Wire, quorum: Quorum, broker: int) -> tuple[bool, int, bool]:
    """First who has fetched most. One live broker that does not answer this host holds nobody up."""
    silent_until = _silent_until.get(wire, {}).get(broker, 0.0)
    return time.monotonic() < silent_until, -quorum.fetched.get(broker, 0), broker != quorum.leader


def wait_for_own_configs(wire: Wire, brokers: Collection[int]) -> None:
    """Waits until each of these brokers tells of its own configs all that the controllers have written by now.

    A broker shows a new image of the metadata first, and takes over its own configs last, perhaps with thousands of
    logs between (BrokerMetadataPublisher.onMetadataUpdate). One image comes after the other, so it is done with one as
    soon as it shows the next. The controllers write something every half second (metadata.max.idle.interval.ms).

    Raises ReadError, ConnectionSettingsError.
    """
    shown = {}
    for broker in sorted(brokers):
        fresh_broker(wire, broker, anew=False)
        shown[broker] = _applied(wire, broker)
    give_up = time.monotonic() + _QUIET_SECONDS
    while time.monotonic() < give_up:
        shown = {broker: offset for broker, offset in shown.items() if _applied(wire, broker) == offset}
        if not shown:
            return
        time.sleep(_PAUSE_SECONDS)


def read_fresh(wire: Wire, request: Any, *, anew: bool = True) -> Any:
    """The answer of a broker that `fresh_broker` gives; of another one if that goes away meanwhile.

    The request must only read. Raises ReadError, ConnectionSettingsError.
    """
    give_up = time.monotonic() + REQUEST_SECONDS
    while True:
        broker = fresh_broker(wire, anew=anew)
        try:
            return wire.read(request, broker, repeat_seconds=0, answer_seconds=ANOTHER_SECONDS)
        except ReadError:
            if time.monotonic() >= give_up:
                raise
            wire.forget_fresh()
            time.sleep(_PAUSE_SECONDS)


def _last_offset(quorum: Quorum) -> int:
    """Of the leader's log: what is listed as in motion may not be committed yet."""
    return quorum.fetched[quorum.leader] - 1


def _applied(wire: Wire, broker: int) -> int:
    """Up to which offset the broker has applied the metadata; -1: it does not answer.

    A broker that stands still keeps its connections, and would hold up whoever asks for half a minute.
    """
    request = ApiVersionsRequest(
        client_software_name="kafka-rebalance", client_software_version=kafka_rebalance.__version__
    )
    silent_until = _silent_until.setdefault(wire, {})
    try:
        answer = wire.read(request, broker, repeat_seconds=0, answer_seconds=_SILENT_SECONDS)
    except ReadError:
        silent_until[broker] = time.monotonic() + DEAF_SECONDS
        return -1
    silent_until.pop(broker, None)
    return int(answer.finalized_features_epoch)
