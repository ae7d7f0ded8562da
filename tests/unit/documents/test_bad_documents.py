"""Bad documents by the hundred thousand, from a seed: each is refused with one of our own errors, or fit for use."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.kafka.reassignment_json import (
    canonical_plan,
    format_reassignment,
    parse_log_dirs,
    parse_reassignment,
    parse_topics_to_move,
)
from kafka_rebalance.kafka.throttles import throttle_problem
from kafka_rebalance.model.digests import canonical_json, digest_of
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.throttle.in_force import confirm, set_changes
from kafka_rebalance.throttle.put_back import release
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.cluster_lock import decode_lock, encode_lock
from kafka_rebalance.zookeeper.znodes import is_topic_name
from support.documents.bad_documents import ODD, spoiled_bytes, spoiled_value
from support.documents.valid_documents import (
    BROKER,
    CLUSTER,
    CONFIG,
    CONTROLLER,
    INT_MAX,
    LEASE,
    OWNER,
    PLAN,
    POLICY,
    REASSIGNMENT,
    SEED,
    SETTINGS,
    STATE,
    TOPIC,
    TOPICS,
    Refused,
    check_election,
    check_request,
    use,
)
from support.kafka.small_clusters import DIGEST


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
    check_request(found)


def config(data: bytes) -> None:
    found = znodes.decode_config(data, "topics/orders")
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in found.items())
    assert znodes.decode_config(znodes.encode_config(found)) == found


def owner(data: bytes) -> None:
    found = decode_lock(data)
    assert decode_lock(encode_lock(found)) == found


def plan(text: str) -> None:
    lists = parse_reassignment(text)
    named = parse_log_dirs(text)
    assert all(replica[:2] in lists for replica in named)
    assert parse_reassignment(format_reassignment(lists)) == lists
    once = canonical_plan(text)
    assert canonical_plan(once) == once
    check_request(lists)


def topics_to_move(text: str) -> None:
    assert all(isinstance(name, str) for name in parse_topics_to_move(text))


def settings(value: Any) -> None:
    found = Settings.from_mapping(value)
    plain = json.loads(json.dumps(found.to_mapping(), allow_nan=False))
    assert Settings.from_mapping(plain) == found
    digest_of(found.to_mapping())


def policy(value: Any) -> None:
    found = Policy.from_mapping(value, "The policy")
    assert Policy.from_mapping(found.to_mapping(), "The policy").digest == found.digest
    assert found.approvers


def lease(value: Any) -> None:
    """What is read back as a lease can be set, confirmed and put back, and touches throttles alone."""
    found = ThrottleLease.from_mapping(value)
    assert ThrottleLease.from_mapping(json.loads(json.dumps(found.to_mapping()))) == found
    before = {entity: {k: v for k, v in values.items() if v is not None} for entity, values in found.prior.items()}
    assert all(throttle_problem(*change) is None for change in set_changes(found, {}).items())
    changes = set_changes(found, before)
    throttled = {entity: values | changes.get(entity, {}) for entity, values in before.items()}
    assert confirm(found, throttled) == ()
    back = release(found, throttled)
    assert back.complete
    after = {entity: values | back.changes.get(entity, {}) for entity, values in throttled.items()}
    assert {e: {k: v for k, v in values.items() if v is not None} for e, values in after.items()} == before


class OneFile:
    """A run's folder that holds one file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __truediv__(self, name: str) -> OneFile:
        return self

    @property
    def fs(self) -> Self:
        return self

    path = "bucket/decision.json"

    def cat_file(self, _: str) -> bytes:
        return self.data


def decision(data: bytes) -> None:
    folder: Any = OneFile(data)
    found = json_files.read_json(folder, json_files.DECISION)
    assert found["format_version"] == json_files.FORMAT_VERSION
    assert json.loads(canonical_json(found)) == found
    # The digest that was approved is of every value: what was changed since is another decision.
    same = json.dumps(found, sort_keys=True) == json.dumps(DECISION, sort_keys=True)  # 1000.0 is another text than 1000
    assert (digest_of(found) == digest_of(DECISION)) == same


DECISION = {
    "format_version": 1,
    "choice": "balanced",
    "digest": DIGEST,
    "approved_by": {"id": "uma", "name": "uma"},
    "throttle_bytes_per_second": 1000,
    "note": "",
}


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
        bytes_of({"version": 1, "partitions": [{"topic": "orders", "partition": 3}]}), check_election, 5_000
    ),
    "config znode": Decoder(bytes_of(CONFIG), config, 5_000),
    "lock znode": Decoder(bytes_of(OWNER), owner, 5_000),
    "plan": Decoder(text_of(PLAN), plan, 15_000),
    "topics to move": Decoder(text_of(TOPICS), topics_to_move, 3_000),
    "settings": Decoder(value_of(SETTINGS), settings, 8_000),
    "policy": Decoder(value_of(POLICY), policy, 8_000),
    "decision": Decoder(bytes_of(DECISION), decision, 8_000),
    "throttle lease": Decoder(value_of(LEASE), lease, 8_000),
}


def test_more_than_a_hundred_thousand_documents_are_tried() -> None:
    assert sum(decoder.documents for decoder in DECODERS.values()) > 100_000


@pytest.mark.slow
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
