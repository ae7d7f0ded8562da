"""What a look at the whole cluster takes from brokers, groups and metrics server, and what of it is left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.admin.out_of_sync import OutOfSync
from kafka_rebalance.errors import AuthenticationError, ReadError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection, MetricsServer
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.throttle.adaptive_rate import GroupLag, Sight
from kafka_rebalance.throttle.read_sight import read_sight
from support.metrics.http_server import answering, body, metrics_server, success

ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 0)
MOVE = Move(ORDERS, (1, 2), (3, 2), size_bytes=5)


class Cluster:
    """Brokers 1 to 3. `own`: configs of topics."""

    def __init__(self, own: Mapping[str, Mapping[str, str]]) -> None:
        self.own = own

    def read_topic_configs(self, topics: Collection[str]) -> dict[str, Mapping[str, str]]:
        return {topic: self.own.get(topic, {}) for topic in topics}

    def read_batch_view(self, _: object) -> SimpleNamespace:
        return SimpleNamespace(brokers=frozenset((1, 2, 3)))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What brokers tell, by the function that reads it; an error is raised."""
    answers: dict[str, Any] = {
        "out_of_sync.read_out_of_sync": {},
        "out_of_sync.read_eligible": {},
        "out_of_sync.read_answer_seconds": {1: 0.001},
        "groups.read_committed_offsets": {ORDERS: {"billing": 10}, AUDIT: {"billing": 5, "gone": 0}},
        "offsets.read_end_offsets": {ORDERS: 17, AUDIT: 5},
        "configs.read_effective_configs": {1: {"min.insync.replicas": ("2", "STATIC_BROKER_CONFIG")}},
    }

    def answer(name: str) -> Any:
        if isinstance(answers[name], Exception):
            raise answers[name]
        return answers[name]

    for name in answers:
        monkeypatch.setattr(f"kafka_rebalance.admin.{name}", lambda *_, _name=name, **__: answer(_name))
    return answers


def look(
    own: Mapping[str, Mapping[str, str]] | None = None,
    *,
    given_up: Collection[int] = (),
    moves: tuple[Move, ...] = (MOVE,),
    metrics: MetricsServer | None = None,
) -> Sight:
    connection = ClusterConnection("kafka", None, KafkaConnection("nowhere:9092"), metrics=metrics)
    cluster: Any = Cluster(own or {})
    return read_sight(connection, cluster, 100.0, brokers=(1, 2, 3), moves=moves, given_up=given_up)


def test_what_the_run_itself_explains_does_not_count(told: dict[str, Any]) -> None:
    told["out_of_sync.read_out_of_sync"] = {ORDERS: OutOfSync(1, (3, 2, 1), (1, 2)), AUDIT: OutOfSync(2, (2, 1), (2,))}
    sight = look()
    assert sight.short is not None
    assert [(one.topic_partition, one.missing, one.in_sync) for one in sight.short] == [(AUDIT, (1,), 1)]
    assert look(given_up=(1,)).short == ()
    assert sight.copying == {1, 2, 3}
    after = look(moves=())
    assert after.short is not None
    assert len(after.short) == 2, "nobody moves it any more"
    assert after.copying == frozenset()


def test_min_insync_replicas_is_of_the_topic_else_of_its_leader_else_of_a_broker_that_tells_it(
    told: dict[str, Any],
) -> None:
    told["out_of_sync.read_out_of_sync"] = {
        AUDIT: OutOfSync(1, (1, 2), (1,)),
        ORDERS: OutOfSync(-1, (2, 9), ()),
        TopicPartition("own", 0): OutOfSync(1, (1, 2, 9), (1, 2)),
    }
    told["out_of_sync.read_eligible"] = {ORDERS: 1}
    sight = look({"own": {"min.insync.replicas": "1"}}, moves=())
    assert sight.short is not None
    found = {one.topic_partition.topic: (one.min_in_sync, one.is_under_min, one.is_at_min) for one in sight.short}
    assert found == {"audit": (2, True, True), "orders": (2, True, True), "own": (1, False, False)}
    told["configs.read_effective_configs"] = {}
    sight = look(moves=())
    assert sight.short is not None
    assert all(one.is_at_min for one in sight.short), "what nobody tells is not the harmless case"


def test_lags_are_those_of_partitions_whose_end_is_known(told: dict[str, Any]) -> None:
    assert look().lags == {"billing": GroupLag(15, 7), "gone": GroupLag(0, 5)}
    told["offsets.read_end_offsets"] = {ORDERS: 17}
    assert look().lags == {"billing": GroupLag(10, 7)}


@pytest.mark.parametrize(
    ("reader", "part"),
    [
        ("out_of_sync.read_out_of_sync", "isr"),
        ("out_of_sync.read_answer_seconds", "answers"),
        ("groups.read_committed_offsets", "lags"),
    ],
)
def test_a_part_that_cannot_be_read_is_named_and_the_others_count(told: dict[str, Any], reader: str, part: str) -> None:
    told[reader] = ReadError("Nobody answers.")
    sight = look()
    assert sight.unread == {part: "Nobody answers."}
    assert (sight.short is None, sight.lags is None) == (part == "isr", part == "lags")
    told[reader] = AuthenticationError("Refused.")
    with pytest.raises(AuthenticationError):
        look()


def point(value: str, **labels: str) -> dict[str, object]:
    return {"metric": labels, "values": [[100, value]]}


def test_a_metrics_server_tells_the_use_of_networks_by_broker(told: dict[str, Any]) -> None:
    given = [point("0.9", broker="1"), point("0.1", broker="2"), point("0.2", broker="3"), point("0.5", broker="4")]
    with answering(body(success(given))) as (url, asked):
        sight = look(metrics=metrics_server(url, network_use="max by (broker) (use)"))
    assert sight.network == {1: 0.9, 2: 0.1, 3: 0.2}
    assert sight.latency == {}
    assert asked[0].query == {"query": "max by (broker) (use)", "start": "100", "end": "100", "step": "1"}


def test_a_series_without_a_broker_is_of_all_and_the_highest_counts(told: dict[str, Any]) -> None:
    with answering(body(success([point("0.02"), point("0.05", broker="2"), point("NaN", broker="1")]))) as (url, _):
        sight = look(metrics=metrics_server(url, produce_latency="p99"))
    assert sight.latency == {1: 0.02, 2: 0.05, 3: 0.02}


def test_a_broker_of_which_the_metrics_server_says_nothing_is_no_calm_one(told: dict[str, Any]) -> None:
    with answering(body(success([point("0.1", broker="1")]))) as (url, _):
        sight = look(metrics=metrics_server(url, network_use="use"))
    assert sight.network is None
    assert "gives nothing for network_use of broker 2, 3" in sight.unread["network_use"]


def test_queries_that_the_connection_does_not_name_are_not_asked(told: dict[str, Any]) -> None:
    with answering(body({}, 500)) as (url, asked):
        sight = look(metrics=metrics_server(url))
    assert not asked
    assert sight.unread == {}
