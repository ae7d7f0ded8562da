"""Bad documents by the hundred thousand, from a seed: each is refused with one of our own errors, or fit for use.

What writes is given a ZooKeeper in memory, on which a refused document must not have made a single write.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from bad_documents import ODD, spoiled_bytes, spoiled_value
from builders import DIGEST
from fake_zookeeper import FakeZooKeeper, fake_cluster
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.execution.lease import RateChange, ThrottleLease
from kafka_rebalance.execution.throttle import confirm, release, set_changes
from kafka_rebalance.kafka.reassignment_json import (
    format_reassignment,
    parse_log_dirs,
    parse_reassignment,
    parse_topics_to_move,
)
from kafka_rebalance.model import artifacts
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.proposal import Batch, Move
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.given import canonical_plan
from kafka_rebalance.zookeeper import lock, writer, znodes
from kafka_rebalance.zookeeper.reader import read_cluster_view
from kafka_rebalance.zookeeper.znodes.parsing import is_topic_name

SEED = 20_261_121
INT_MAX = 2**31 - 1
REQUEST = re.compile(
    rb'\{"version":1,"partitions":\[(\{"topic":"[a-zA-Z0-9._-]{1,249}","partition":[0-9]{1,10},'
    rb'"replicas":\[[0-9]{1,10}(,[0-9]{1,10})*\]\},?)+\]\}'
)
ELECTION = re.compile(
    rb'\{"version":1,"partitions":\[(\{"topic":"[a-zA-Z0-9._-]{1,249}","partition":[0-9]{1,10}\},?)+\]\}'
)

# What Kafka and this project write.
ENTRY = {"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}
PLAN = {"version": 1, "partitions": [ENTRY, {**ENTRY, "partition": 1, "log_dirs": ["any", "any", "any"]}]}
REASSIGNMENT = {"version": 1, "partitions": [ENTRY, {**ENTRY, "partition": 1}]}
TOPICS = {"version": 1, "topics": [{"topic": "orders"}, {"topic": "audit"}]}
TOPIC = {
    "version": 3,
    "topic_id": "orders0000000000000000",
    "partitions": {"0": [1, 2], "1": [2, 3, 1]},
    "adding_replicas": {"1": [3]},
    "removing_replicas": {"1": [1]},
}
STATE = {"version": 1, "leader": 1, "leader_epoch": 4, "controller_epoch": 2, "isr": [1, 2]}
BROKER = {
    "version": 5,
    "host": "b1",
    "port": 9092,
    "jmx_port": -1,
    "timestamp": "1529210278988",
    "endpoints": ["PLAINTEXT://b1:9092", "SSL://[::1]:9093"],
    "rack": "r1",
    "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL"},
    "features": {},
}
CONTROLLER = {"version": 2, "brokerid": 1, "timestamp": "1529210278988", "kraftControllerEpoch": -1}
CLUSTER = {"version": "1", "id": "bXktY2x1c3Rlci1pZC0wMQ"}
CONFIG = {"version": 1, "config": {"retention.ms": "1000", "leader.replication.throttled.replicas": "0:1,1:2"}}
OWNER = {"version": 1, "run": "kafka_rebalance/one", "digest": DIGEST, "owner": "http://airflow", "acquired_at": "now"}
SETTINGS = {**Settings(job="drain", drain=(1,), max_bytes=5).to_mapping(), "replace": {"7": 8}, "format_version": 1}
POLICY = Policy.from_mapping({"approvers": ["uma", {"id": "7", "name": "vera"}], "brokers_out": [3]}, "").to_mapping()
RATES = {"leader.replication.throttled.rate": "1000", "follower.replication.throttled.rate": "1000"}
LISTS = {"leader.replication.throttled.replicas": "0:1,0:2", "follower.replication.throttled.replicas": "0:3"}
LEASE = ThrottleLease(
    "kafka_rebalance/one",
    DIGEST,
    1000,
    {"topics/orders": LISTS, "brokers/1": RATES},
    {
        "topics/orders": dict(zip(LISTS, ("5:1", None), strict=True)),
        "brokers/1": {"leader.replication.throttled.rate": None, "follower.replication.throttled.rate": "77"},
    },
    cluster_id="bXktY2x1c3Rlci1pZC0wMQ",
    first_bytes_per_second=2000,
    rate_changes=(RateChange(1000, "uma", "2026-11-21T00:00:00+00:00"),),
).to_mapping()  # fmt: skip


class Refused(Exception):
    """One of our own errors, as it must be."""


def use(act: Callable[[], Any]) -> Any:
    """The result; our own errors as `Refused`, every other as it is, and so the end of the test."""
    try:
        return act()
    except RebalanceError as own:
        if not str(own):
            raise AssertionError("an error without a word") from own
        raise Refused from own


def brokers(value: object) -> bool:
    return isinstance(value, tuple) and all(type(broker) is int and 0 <= broker <= INT_MAX for broker in value)


def bytes_of(valid: Any) -> Callable[[random.Random], bytes]:
    return lambda rng: spoiled_bytes(rng, valid)


def text_of(valid: Any) -> Callable[[random.Random], str]:
    return lambda rng: spoiled_bytes(rng, valid).decode("utf-8", "replace")


def value_of(valid: Any) -> Callable[[random.Random], Any]:
    return lambda rng: spoiled_value(rng, valid)


def topic(data: bytes) -> None:
    found = znodes.decode_topic(data, "orders")
    for lists in (found.partitions, found.adding, found.removing):
        assert all(type(p) is int and p >= 0 and brokers(replicas) for p, replicas in lists.items())
    fresh = len(found.partitions)
    written = znodes.encode_added_partitions("orders", data, {fresh: found.partitions.get(0, ())})
    again = znodes.decode_topic(written, "orders")
    assert again.partitions == {**found.partitions, fresh: found.partitions[0]}
    assert (again.adding, again.removing, again.topic_id) == (found.adding, found.removing, found.topic_id)


def state(data: bytes) -> None:
    found = znodes.decode_partition_state(data)
    assert brokers(found.isr)
    assert type(found.leader) is int
    assert -1 <= found.leader <= INT_MAX
    assert type(found.leader_epoch) is int
    assert found.leader_epoch >= 0


def broker(data: bytes) -> None:
    found = znodes.decode_broker(1, data)
    assert all(isinstance(e.host, str) and type(e.port) is int and 0 <= e.port < 65536 for e in found.endpoints)
    assert found.rack is None or isinstance(found.rack, str)


def controller(data: bytes) -> None:
    found = znodes.decode_controller(data, 1)
    assert type(found.broker) is int
    assert found.broker >= -1
    assert type(found.kraft_epoch) is int
    assert found.kraft_epoch >= -1


def epoch(data: bytes) -> None:
    assert str(znodes.decode_controller_epoch(data)).encode() == data.lstrip(b"0").rjust(1, b"0")


def cluster_id(data: bytes) -> None:
    assert isinstance(znodes.decode_cluster_id(data), str)


def request(data: bytes) -> None:
    found = znodes.decode_reassignment(data)
    assert all(is_topic_name(t) and type(p) is int and brokers(replicas) for (t, p), replicas in found.items())
    encoded_request(found)


def encoded_request(assignment: Mapping[TopicPartition, Any]) -> None:
    """What the encoder takes is exactly what a controller can read, and says what was asked."""
    data = znodes.encode_reassignment(assignment)
    assert REQUEST.fullmatch(data), data
    entries = json.loads(data)["partitions"]
    assert {(e["topic"], e["partition"]): tuple(e["replicas"]) for e in entries} == {
        tuple(key): tuple(replicas) for key, replicas in assignment.items()
    }
    assert all(len(set(e["replicas"])) == len(e["replicas"]) for e in entries)
    assert all(value <= INT_MAX for e in entries for value in (e["partition"], *e["replicas"]))


def election(data: bytes) -> None:
    found = znodes.decode_election(data)
    written = znodes.encode_election(found)
    assert ELECTION.fullmatch(written), written
    assert znodes.decode_election(written) == found


def config(data: bytes) -> None:
    found = znodes.decode_config(data, "topics/orders")
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in found.items())
    assert znodes.decode_config(znodes.encode_config(found)) == found


def owner(data: bytes) -> None:
    found = lock.decode_lock(data)
    assert lock.decode_lock(lock.encode_lock(found)) == found


def plan(text: str) -> None:
    lists = parse_reassignment(text)
    named = parse_log_dirs(text)
    assert all(replica[:2] in lists for replica in named)
    assert parse_reassignment(format_reassignment(lists)) == lists
    once = canonical_plan(text)
    assert canonical_plan(once) == once
    encoded_request(lists)


def topics_to_move(text: str) -> None:
    assert all(isinstance(name, str) for name in parse_topics_to_move(text))


def settings(value: Any) -> None:
    found = Settings.from_mapping(value)
    plain = json.loads(json.dumps(found.to_mapping(), allow_nan=False))
    assert Settings.from_mapping(plain) == found
    artifacts.digest_of(found.to_mapping())


def policy(value: Any) -> None:
    found = Policy.from_mapping(value, "The policy")
    assert Policy.from_mapping(found.to_mapping(), "The policy").digest == found.digest
    assert found.approvers


def lease(value: Any) -> None:
    """What is read back as a lease can be set, confirmed and put back, and touches throttles alone."""
    found = ThrottleLease.from_mapping(value)
    assert ThrottleLease.from_mapping(json.loads(json.dumps(found.to_mapping()))) == found
    before = {entity: {k: v for k, v in values.items() if v is not None} for entity, values in found.prior.items()}
    assert all(znodes.throttle_problem(*change) is None for change in set_changes(found, {}).items())
    changes = set_changes(found, before)
    throttled = {entity: values | changes.get(entity, {}) for entity, values in before.items()}
    assert confirm(found, throttled) == ()
    back = release(found, throttled)
    assert back.complete
    after = {entity: values | back.changes.get(entity, {}) for entity, values in throttled.items()}
    assert {e: {k: v for k, v in values.items() if v is not None} for e, values in after.items()} == before


class Decoder(NamedTuple):
    bad: Callable[[random.Random], Any]
    take: Callable[[Any], None]
    documents: int


DECODERS = {
    "topic znode": Decoder(bytes_of(TOPIC), topic, 12_000),
    "state znode": Decoder(bytes_of(STATE), state, 6_000),
    "broker znode": Decoder(bytes_of(BROKER), broker, 8_000),
    "controller znode": Decoder(bytes_of(CONTROLLER), controller, 4_000),
    "controller epoch": Decoder(lambda rng: str(rng.choice(ODD)).encode("utf-8", "replace"), epoch, 500),
    "cluster id": Decoder(bytes_of(CLUSTER), cluster_id, 3_000),
    "reassignment znode": Decoder(bytes_of(REASSIGNMENT), request, 15_000),
    "election znode": Decoder(
        bytes_of({"version": 1, "partitions": [{"topic": "orders", "partition": 3}]}), election, 5_000
    ),
    "config znode": Decoder(bytes_of(CONFIG), config, 5_000),
    "lock znode": Decoder(bytes_of(OWNER), owner, 5_000),
    "plan": Decoder(text_of(PLAN), plan, 15_000),
    "topics to move": Decoder(text_of(TOPICS), topics_to_move, 3_000),
    "settings": Decoder(value_of(SETTINGS), settings, 8_000),
    "policy": Decoder(value_of(POLICY), policy, 8_000),
    "throttle lease": Decoder(value_of(LEASE), lease, 8_000),
}


def test_more_than_a_hundred_thousand_documents_are_tried() -> None:
    assert sum(decoder.documents for decoder in DECODERS.values()) > 100_000


@pytest.mark.parametrize("name", DECODERS)
def test_a_bad_document_is_refused_with_an_error_of_our_own_or_is_fit_for_use(name: str) -> None:
    decoder = DECODERS[name]
    rng = random.Random(f"{SEED} {name}")
    taken = refused = 0
    for number in range(decoder.documents):
        document = decoder.bad(rng)
        try:
            use(lambda document=document: decoder.take(document))
            taken += 1
        except Refused:
            refused += 1
        except BaseException as wrong:
            wrong.add_note(f"{name} {number}: {str(document)[:2000]}")
            raise
    assert taken, "no document was nearly right"
    assert refused > decoder.documents / 5, "nearly all documents were right"


# Writes: what the znodes hold is bad, or what is to be written.

MOVE = Move(TopicPartition("orders", 0), (1, 2), (2, 3), 100, 1)
ZNODES: dict[str, Any] = {
    "/brokers/topics/orders": TOPIC,
    "/brokers/topics/orders/partitions/0/state": STATE,
    "/brokers/ids/1": BROKER,
    "/controller": CONTROLLER,
    "/cluster/id": CLUSTER,
    "/config/topics/orders": CONFIG,
    "/admin/reassign_partitions": {"version": 1, "partitions": [ENTRY]},
    "/admin/preferred_replica_election": {"version": 1, "partitions": [{"topic": "orders", "partition": 0}]},
    "/kafka_rebalance/run": OWNER,
}


def writes(fake: FakeZooKeeper) -> tuple[Callable[[], object], ...]:
    """Everything that a run writes to ZooKeeper, as if what it has read before were all right."""
    batch = Batch(1, (MOVE,), DIGEST)
    run = lock.LockOwner("kafka_rebalance/two", DIGEST, "http://airflow")
    client: Any = fake
    return (
        lambda: writer.create_reassignment(client, batch, DIGEST, {1, 2, 3}),
        lambda: writer.merge_config(client, "topics/orders", LISTS),
        lambda: writer.create_election(client, [MOVE.topic_partition], read_cluster_view(client, {"orders"})),
        lambda: lock.acquire(client, run),
        lambda: lock.release(client, run),
    )


def test_where_a_znode_is_bad_nothing_is_written_over_it() -> None:
    """Each refusal leaves every znode as it was; what a write rests on is read before it."""
    rng = random.Random(SEED)
    refused = 0
    for number in range(4_000):
        path = rng.choice(list(ZNODES))
        fake = fake_cluster({"orders": {0: (1, 2)}}, brokers=3)
        fake.create(path, b"", makepath=True) if path not in fake.znodes else None
        fake.znodes[path].data = data = spoiled_bytes(rng, ZNODES[path])
        fake.writes.clear()
        act = rng.choice(writes(fake))
        try:
            use(act)
        except Refused:
            refused += 1
            assert fake.writes == [], f"{number}: {path} {data[:2000]!r}"
            assert fake.znodes[path].data == data
        except BaseException as wrong:
            wrong.add_note(f"{number}: {path} {data[:2000]!r}")
            raise
    assert refused > 500


def test_a_bad_batch_is_never_written() -> None:
    """Whatever the moves hold: the request is of the one form that controllers can read, or none is made."""
    rng = random.Random(SEED)
    requested = 0
    for number in range(6_000):
        move = spoiled_value(rng, ["orders", 0, [1, 2], [2, 3]])
        fake = fake_cluster({"orders": {0: (1, 2)}}, brokers=3)
        client: Any = fake
        try:
            name, partition, before, after = move
            batch = Batch(1, (Move(TopicPartition(name, partition), before, after, 100, 1),), DIGEST)
            hash(batch.moves[0].topic_partition)
        except (TypeError, ValueError):
            continue  # no move at all
        try:
            use(lambda batch=batch, client=client: writer.create_reassignment(client, batch, DIGEST, {1, 2, 3}))
        except Refused:
            assert fake.writes == []
        except BaseException as wrong:
            wrong.add_note(f"{number}: {str(move)[:2000]}")
            raise
        else:
            requested += 1
            data = fake.znodes["/admin/reassign_partitions"].data
            assert REQUEST.fullmatch(data), data
            assert set(json.loads(data)["partitions"][0]["replicas"]) <= {1, 2, 3}
    assert requested > 500


def odd_assignment(rng: random.Random) -> Any:
    """What no decoder would give: keys and lists of any type."""
    keys: list[Any] = [("orders", 0), TopicPartition("audit", 1), rng.choice(ODD), (rng.choice(ODD), rng.choice(ODD))]
    lists: list[Any] = [
        [1, 2],
        (3,),
        rng.choice(ODD),
        [rng.choice(ODD), rng.choice(ODD)],
        "12",
        b"12",
        {1, 2},
        range(3),
    ]
    found = {}
    for _ in range(rng.choice((0, 1, 1, 2))):
        key = rng.choice(keys)
        try:
            found[key] = rng.choice(lists)
        except TypeError:
            continue
    return found


def topic_document(assignment: Any, rng: random.Random) -> None:
    lists = {rng.choice((0, 1, *ODD[:8])): replicas for replicas in assignment.values()}
    for version in ("2.0", "2.8"):
        found = znodes.decode_topic(znodes.encode_topic("orders", lists, version=version), "orders")
        assert found.partitions == {p: tuple(replicas) for p, replicas in lists.items()}


def config_document(assignment: Any, rng: random.Random) -> None:
    values = {rng.choice(("retention.ms", *(odd for odd in ODD if not isinstance(odd, list | dict)))): rng.choice(ODD)}
    assert znodes.decode_config(znodes.encode_config(values)) == values
    problem = znodes.throttle_problem(rng.choice(("topics/orders", "brokers/1", "brokers/01", "topics/..", "")), values)
    assert problem is not None or not values


def owner_document(assignment: Any, rng: random.Random) -> None:
    found = lock.LockOwner(*(rng.choice(("run", "", *ODD[-40:-20])) for _ in range(3)))
    if all(isinstance(text, str) for text in (found.run, found.digest, found.owner)):
        assert lock.decode_lock(lock.encode_lock(found)) == found


ENCODERS: dict[str, Callable[[Any, random.Random], None]] = {
    "request": lambda assignment, rng: encoded_request(assignment),
    "election": lambda assignment, rng: election(znodes.encode_election(assignment)),
    "topic": topic_document,
    "config": config_document,
    "lock": owner_document,
}


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_gives_the_one_allowed_form_or_refuses(name: str) -> None:
    rng = random.Random(f"{SEED} {name}")
    taken = 0
    for number in range(4_000):
        assignment = odd_assignment(rng)
        try:
            use(lambda assignment=assignment: ENCODERS[name](assignment, rng))
            taken += 1
        except Refused:
            continue
        except BaseException as wrong:
            wrong.add_note(f"{name} {number}: {str(assignment)[:2000]}")
            raise
    assert taken > 20
