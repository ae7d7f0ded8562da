"""Answers of brokers about log dirs, configs and offsets, and what each failure is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigEntry, ConfigSource, OffsetSpec
from kafka.errors import IncompatibleBrokerVersion, KafkaConnectionError, NodeNotReadyError

from kafka_rebalance.admin import configs, log_dirs, offsets
from kafka_rebalance.admin import offsets as metadata
from kafka_rebalance.admin.log_dirs import FutureReplica, LogDir, alter_log_dirs
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.errors import LockLostError, ReadDeniedError, ReadError, WriteDeniedError, WriteError
from kafka_rebalance.model.cluster_view import ConfigValue
from kafka_rebalance.model.cluster_writes import ClusterWrite, Kind, noted
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition

KAFKA = KafkaConnection("127.0.0.1:9092")


def settled(value: Any = None, error: Any = None) -> Any:
    future = Future()
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
    return future


# --- sizes ---


def log_dir(path: Any = "/data", *, error: Any = 0, **fields: Any) -> Any:
    told = {"error_code": error, "log_dir": path, "topics": [], "total_bytes": -1, "usable_bytes": -1, **fields}
    return SimpleNamespace(**told)


def topic(name: Any, *partitions: Any) -> Any:
    return SimpleNamespace(
        name=name,
        partitions=[
            SimpleNamespace(partition_index=index, partition_size=size, offset_lag=0, is_future_key=future)
            for index, size, future in partitions
        ],
    )


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What each broker answers; an exception is raised."""
    by_broker = {}

    class Manager:
        cluster = SimpleNamespace(refresh_metadata=None, broker_metadata=lambda broker: None)

        def run(self, send: Any, request: Any = None, broker: int = 0, seconds: float = 0.0) -> Any:
            if request is None:
                return None  # it looks for the brokers again
            if isinstance(by_broker[broker], Exception):
                raise by_broker[broker]
            return SimpleNamespace(error_code=0, results=by_broker[broker])

    @contextmanager
    def opened(kafka: Any) -> Any:
        yield Wire(kafka, SimpleNamespace(_manager=Manager()))  # type: ignore[arg-type]

    monkeypatch.setattr(log_dirs, "kept_or_open_wire", opened)
    return by_broker


def test_a_log_dir_that_has_failed_is_told_beside_the_sizes_of_the_others(answers: Any) -> None:
    answers[1] = [log_dir("/a", error=56), log_dir("/b", topics=[topic("orders", (0, 50, False))])]
    answers[2] = [log_dir("/a")]
    found = log_dirs.read_replica_sizes(KAFKA, [1, 2], [TopicPartition("orders", 0)])
    assert found.offline == {1: ("/a",)}
    assert found.replicas == {("orders", 0): {1: 50}}


def test_sizes_are_by_partition_and_broker_and_future_replicas_are_left_out(answers: Any) -> None:
    answers[1] = [
        log_dir("/a", topics=[topic("orders", (0, 100, False), (1, 7, True))], total_bytes=1000, usable_bytes=600),
        log_dir("/b", topics=[topic("orders", (1, 50, False))], total_bytes=-1, usable_bytes=-1),
    ]
    answers[2] = [log_dir("/a", topics=[topic("orders", (0, 90, False))])]
    disks = log_dirs.read_log_dirs(KAFKA, [1, 2])
    assert disks.replicas == {("orders", 0): {1: 100, 2: 90}, ("orders", 1): {1: 50}}
    assert disks.paths == {("orders", 0): {1: "/a", 2: "/a"}, ("orders", 1): {1: "/b"}}
    assert disks.future == {("orders", 1): {1: FutureReplica("/a", 7)}}
    assert log_dirs.read_copies_within(KAFKA, [1, 2]) == {1: {("orders", 1)}}
    assert disks.log_dirs == {
        1: (LogDir("/a", 1000, 600, replicas=2), LogDir("/b", replicas=1)),
        2: (LogDir("/a", replicas=1),),
    }


def test_of_known_disks_only_the_replicas_that_are_named_are_taken_from_the_new_answer(answers: Any) -> None:
    stays, goes = ("orders", 0), ("orders", 1)
    answers[1] = [
        log_dir("/a", topics=[topic("orders", (0, 100, False), (1, 50, False))], total_bytes=1000, usable_bytes=600)
    ]
    answers[2] = [log_dir("/a", topics=[topic("orders", (0, 100, False))])]
    known = log_dirs.read_log_dirs(KAFKA, [1, 2])
    answers[1] = [log_dir("/a", total_bytes=1000, usable_bytes=650)]
    answers[2] = [log_dir("/a", topics=[topic("orders", (1, 60, False))])]
    disks = log_dirs.read_log_dirs_again(KAFKA, known, [TopicPartition(*goes)])
    assert disks.replicas == {stays: {1: 100, 2: 100}, goes: {2: 60}}
    assert disks.paths == {stays: {1: "/a", 2: "/a"}, goes: {2: "/a"}}
    assert disks.log_dirs == {1: (LogDir("/a", 1000, 650, replicas=1),), 2: (LogDir("/a", replicas=2),)}


def test_known_disks_are_read_as_a_whole_when_a_log_dir_has_failed(answers: Any) -> None:
    answers[1] = [log_dir("/a", topics=[topic("orders", (0, 100, False))]), log_dir("/b")]
    known = log_dirs.read_log_dirs(KAFKA, [1])
    answers[1] = [log_dir("/a", error=56), log_dir("/b", topics=[topic("orders", (2, 5, False))])]
    disks = log_dirs.read_log_dirs_again(KAFKA, known, [TopicPartition("orders", 2)])
    assert disks.replicas == {("orders", 2): {1: 5}}, "what lies on the failed one is not known any more"


def test_a_directory_that_takes_no_new_replica_is_told(answers: Any) -> None:
    answers[1] = [log_dir("/a", is_cordoned=True), log_dir("/b", is_cordoned=False), log_dir("/c")]
    assert [one.cordoned for one in log_dirs.read_log_dirs(KAFKA, [1]).log_dirs[1]] == [True, False, False]


def test_an_offline_directory_is_there_without_totals(answers: Any) -> None:
    answers[1] = [log_dir("/a", error=56), log_dir("/b", topics=[topic("t", (0, 5, False))])]
    disks = log_dirs.read_log_dirs(KAFKA, [1])
    assert disks.log_dirs[1] == (LogDir("/a", online=False), LogDir("/b", replicas=1))
    assert disks.replicas == {("t", 0): {1: 5}}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (NodeNotReadyError(), "NodeNotReadyError"),
        ([], "no log directory"),
        ([log_dir("/a", error=31)], "error 31"),
    ],
)
def test_a_broker_whose_sizes_cannot_be_read_is_named(answers: Any, answer: Any, said: str) -> None:
    answers[1], answers[2] = [log_dir()], answer
    with pytest.raises(ReadError, match=f"Broker 2.*{said}"):
        log_dirs.read_log_dirs(KAFKA, [1, 2])


@pytest.mark.parametrize("answer", [NodeNotReadyError(), [], [log_dir("/a"), log_dir("/b", error=31)]])
def test_of_the_rest_a_broker_whose_sizes_cannot_be_read_is_absent(
    answers: Any, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answers[1], answers[2] = [log_dir(topics=[topic("t", (0, 5, False))])], answer
    disks = log_dirs.read_log_dirs(KAFKA, [1, 2], of_the_rest=True)
    assert set(disks.log_dirs) == {1}
    assert disks.replicas == {("t", 0): {1: 5}}
    assert "Broker 2" in caplog.text


def test_of_the_rest_somebody_has_to_tell_sizes(answers: Any) -> None:
    answers[1] = answers[2] = NodeNotReadyError()
    with pytest.raises(ReadError, match="Broker 2"):
        log_dirs.read_log_dirs(KAFKA, [1, 2], of_the_rest=True)


def test_no_broker_is_asked_where_none_is_wanted(answers: Any) -> None:
    assert log_dirs.read_log_dirs(KAFKA, []).replicas == {}


# --- configs ---


class Admin:
    """confluent-kafka's admin client: futures by what was asked for."""

    def __init__(self, broker_configs: Any = None, offsets: Any = None) -> None:
        self.broker_configs, self.offsets = broker_configs or {}, offsets or {}
        self.asked, self.specs = [], []
        self.described = settled(None)

    def describe_configs(self, resources: Any, **options: Any) -> Any:
        (resource,) = resources  # librdkafka takes one broker a request
        self.asked.append(resource.name)
        return {resource: self.broker_configs[int(resource.name)]}

    def list_offsets(self, wanted: Any, **options: Any) -> Any:
        self.asked.append(len(wanted))
        self.specs += wanted.values()
        return {key: self.offsets[(key.topic, key.partition)] for key in wanted}

    def describe_topics(self, topics: Any, **options: Any) -> Any:
        return dict.fromkeys(topics.topic_names, self.described)


def entry(name: Any, value: Any, source: Any, *, sensitive: Any = False) -> Any:
    return ConfigEntry(name, value, source=source, is_sensitive=sensitive)


def use(monkeypatch: pytest.MonkeyPatch, module: Any, admin: Any) -> Any:
    monkeypatch.setattr(module, "open_admin", lambda kafka: admin)
    return admin


def test_effective_configs_say_where_each_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        entry("log.roll.ms", "5", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        entry("log.roll.hours", "168", 5),  # a plain number, as librdkafka gives it
        entry("log.retention.ms", None, ConfigSource.DEFAULT_CONFIG),
        entry("log.segment.bytes", "1000", ConfigSource.DYNAMIC_BROKER_CONFIG),
        entry("replica.fetch.max.bytes", "9", ConfigSource.STATIC_BROKER_CONFIG),
        entry("ssl.key.password", None, ConfigSource.STATIC_BROKER_CONFIG, sensitive=True),
    ]
    use(monkeypatch, configs, Admin({1: settled({item.name: item for item in found})}))
    assert configs.read_effective_configs(KAFKA, [1]) == {
        1: {
            "log.roll.ms": ConfigValue("5", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
            "log.roll.hours": ConfigValue("168", "DEFAULT_CONFIG"),
            "log.retention.ms": ConfigValue(None, "DEFAULT_CONFIG"),
            "log.segment.bytes": ConfigValue("1000", "DYNAMIC_BROKER_CONFIG"),
            "replica.fetch.max.bytes": ConfigValue("9", "STATIC_BROKER_CONFIG"),
        }
    }


def test_all_brokers_are_asked_before_the_first_answer_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = use(monkeypatch, configs, Admin({2: settled({})}))

    class Last(Future):
        def result(self, timeout: Any = None) -> Any:
            assert admin.asked == ["1", "2"]
            return {}

    admin.broker_configs[1] = Last()
    assert configs.read_effective_configs(KAFKA, [1, 2]) == {1: {}, 2: {}}


@pytest.mark.parametrize(
    ("failure", "said"),
    [(KafkaException(KafkaError(KafkaError._TIMED_OUT)), "_TIMED_OUT"), (TimeoutError(), "no answer")],
)
def test_a_broker_that_does_not_tell_its_configs_is_named(
    monkeypatch: pytest.MonkeyPatch, failure: Any, said: str
) -> None:
    use(monkeypatch, configs, Admin({1: settled({}), 2: settled(error=failure)}))
    with pytest.raises(ReadError, match=f"Broker 2.*{said}"):
        configs.read_effective_configs(KAFKA, [1, 2])


def test_of_the_rest_a_broker_that_does_not_tell_its_configs_is_absent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use(monkeypatch, configs, Admin({1: settled({}), 2: settled(error=TimeoutError())}))
    assert configs.read_effective_configs(KAFKA, [1, 2], of_the_rest=True) == {1: {}}
    assert "Broker 2 does not tell its configs (no answer)" in caplog.text


def test_of_the_rest_somebody_has_to_tell_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, configs, Admin({1: settled(error=TimeoutError())}))
    with pytest.raises(ReadError, match="Broker 1"):
        configs.read_effective_configs(KAFKA, [1], of_the_rest=True)


# --- offsets and cluster id ---


class Offset:
    def __init__(self, offset: Any) -> None:
        self.offset = offset


def test_end_offsets_of_all_partitions_are_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = use(monkeypatch, metadata, Admin(offsets={("t", 0): settled(Offset(7)), ("t", 1): settled(Offset(0))}))
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert metadata.read_end_offsets(KAFKA, partitions) == {("t", 0): 7, ("t", 1): 0}
    assert admin.asked == [2]


def test_first_offsets_are_asked_for_as_earliest(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = use(monkeypatch, metadata, Admin(offsets={("t", 0): settled(Offset(3))}))
    assert metadata.read_start_offsets(KAFKA, [TopicPartition("t", 0)]) == {("t", 0): 3}
    assert [type(spec) for spec in admin.specs] == [type(OffsetSpec.earliest())]


def test_without_partitions_no_broker_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert metadata.read_end_offsets(KafkaConnection("127.0.0.1:1"), []) == {}


def test_partitions_whose_offset_cannot_be_read_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = settled(error=KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))
    use(monkeypatch, metadata, Admin(offsets={("t", 0): settled(Offset(7)), ("t", 1): failed}))
    monkeypatch.setattr(metadata, "_SETTLE_SECONDS", 0.0)
    with pytest.raises(ReadError, match=r"1 partitions.*t-1 \(LEADER_NOT_AVAILABLE"):
        metadata.read_end_offsets(KAFKA, [TopicPartition("t", 0), TopicPartition("t", 1)])


def test_of_the_rest_partitions_whose_offset_cannot_be_read_are_absent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed = settled(error=KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    use(monkeypatch, metadata, Admin(offsets={("t", 0): settled(Offset(7)), ("t", 1): failed}))
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert metadata.read_end_offsets(KAFKA, partitions, of_the_rest=True) == {("t", 0): 7}
    assert metadata.read_start_offsets(KAFKA, partitions, of_the_rest=True) == {("t", 0): 7}
    assert "1 partitions cannot be read, among them t-1 (_TIMED_OUT" in caplog.text


def test_a_leader_that_brokers_do_not_tell_yet_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = settled(error=KafkaException(KafkaError(KafkaError._NOENT)))
    admin = use(monkeypatch, metadata, Admin(offsets={("t", 0): settled(Offset(7)), ("t", 1): unknown}))
    # The pause is the moment in which the brokers learn of it.
    monkeypatch.setattr(metadata.time, "sleep", lambda _: admin.offsets.update({("t", 1): settled(Offset(3))}))
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert metadata.read_end_offsets(KAFKA, partitions) == {("t", 0): 7, ("t", 1): 3}
    assert admin.asked == [2, 1]


def test_a_topic_that_may_not_be_described_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = settled(error=KafkaException(KafkaError(KafkaError._NOENT)))
    admin = use(monkeypatch, metadata, Admin(offsets={("t", 0): hidden}))
    admin.described = settled(error=KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    with pytest.raises(ReadDeniedError, match="Grant it Describe on all topics"):
        metadata.read_end_offsets(KAFKA, [TopicPartition("t", 0)])
    assert admin.asked == [1]


def test_what_may_not_be_read_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = settled(error=KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    admin = use(monkeypatch, metadata, Admin(offsets={("t", 0): refused}))
    with pytest.raises(ReadError, match=r"t-0 \(TOPIC_AUTHORIZATION_FAILED"):
        metadata.read_end_offsets(KAFKA, [TopicPartition("t", 0)])
    assert admin.asked == [1]


# --- where local logs begin ---

ORDERS, MORE = TopicPartition("orders", 0), TopicPartition("orders", 1)
Answers = Callable[[int, Any], Any]


@pytest.fixture
def asks_brokers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], list[tuple[int, Any]]]:
    """Lets brokers answer so. Returns the requests that they have got."""
    requests: list[tuple[int, Any]] = []

    def use(answers: Answers) -> list[tuple[int, Any]]:
        def read(request: Any, broker: int, **_: object) -> Any:
            requests.append((broker, request))
            return answers(broker, request)

        @contextmanager
        def open_wire(_: KafkaConnection) -> Iterator[Any]:
            yield SimpleNamespace(read=read)

        monkeypatch.setattr(offsets, "open_wire", open_wire)
        return requests

    return use


def local_answer(*partitions: tuple[TopicPartition, int, int]) -> Any:
    """(partition, error code, offset)"""
    topics = [
        SimpleNamespace(
            name=tp.topic, partitions=[SimpleNamespace(partition_index=tp.partition, error_code=code, offset=offset)]
        )
        for tp, code, offset in partitions
    ]
    return SimpleNamespace(topics=topics)


def test_each_leader_is_asked_for_its_own_by_the_version_that_knows_of_it(asks_brokers: Any) -> None:
    requests = asks_brokers(lambda broker, _: local_answer((ORDERS if broker == 1 else MORE, 0, 100 * broker)))
    found = offsets.read_local_starts(KAFKA, {ORDERS: 1, MORE: 2})
    assert (found.offsets, found.untold) == ({ORDERS: 100, MORE: 200}, {})
    assert [broker for broker, _ in requests] == [1, 2]
    request = requests[0][1]
    assert [one.timestamp for topic in request.topics for one in topic.partitions] == [-4]
    # An older broker takes -4 for a time before all records, and answers with the first offset of the whole log.
    assert (request._min_version, request._max_version) == (8, 8)


def test_without_tiered_topics_no_broker_is_asked() -> None:
    assert offsets.read_local_starts(KafkaConnection("127.0.0.1:1"), {}) == offsets.LocalStarts()


def test_a_broker_that_cannot_tell_or_does_not_answer_leaves_its_partitions_unknown_and_says_so(
    asks_brokers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def answers(broker: int, _: object) -> Any:
        if broker == 1:
            raise IncompatibleBrokerVersion("ListOffsets")
        if broker == 2:
            raise ReadError("Broker 2 cannot be read.")
        return local_answer((TopicPartition("orders", 2), 0, 7))

    asks_brokers(answers)
    found = offsets.read_local_starts(KAFKA, {ORDERS: 1, MORE: 2, TopicPartition("orders", 2): 3})
    assert found.offsets == {TopicPartition("orders", 2): 7}
    assert found.untold == {
        ORDERS: "broker 1 is of a release before 3.6, which cannot tell it",
        MORE: "Broker 2 cannot be read.",
    }
    assert "What the disks hold of the tiered partition orders-0 is unknown: broker 1 is of a release" in caplog.text


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (local_answer((ORDERS, 6, -1)), "broker 1 answers NotLeaderForPartitionError"),
        (local_answer((ORDERS, 0, -1)), "the answer of broker 1 does not name it"),
        (local_answer(), "the answer of broker 1 does not name it"),
        (local_answer((ORDERS, 9999, -1)), "broker 1 answers UnrecognizedBrokerError"),
    ],
)
def test_no_answer_is_never_a_log_that_begins_at_its_first_record(asks_brokers: Any, told: Any, why: str) -> None:
    asks_brokers(lambda *_: told)
    found = offsets.read_local_starts(KAFKA, {ORDERS: 1})
    assert (found.offsets, found.untold) == ({}, {ORDERS: why})


# --- requests to copy replicas into other log dirs ---

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class AlteringManager:
    """Answers each request with these codes, or raises the error. A code of None leaves the partition out."""

    def __init__(self, codes: dict[TopicPartition, int | None] | Exception) -> None:
        self.codes = codes
        self.sent: list[tuple[dict[str, dict[str, list[int]]], int]] = []

    def run(self, send: Any, request: Any, broker: int) -> Any:
        asked = {one.path: {topic.name: list(topic.partitions) for topic in one.topics} for one in request.dirs}
        self.sent.append((asked, broker))
        if isinstance(self.codes, Exception):
            raise self.codes
        return SimpleNamespace(
            results=[
                SimpleNamespace(
                    topic_name=tp.topic,
                    partitions=[SimpleNamespace(partition_index=tp.partition, error_code=code)],
                )
                for tp, code in self.codes.items()
                if code is not None
            ]
        )


def alter(manager: AlteringManager, targets: dict[TopicPartition, str], **more: Any) -> dict[TopicPartition, str]:
    client: Any = SimpleNamespace(_manager=manager)
    wire = Wire(KafkaConnection("b1:9092"), client)
    return alter_log_dirs(wire, 3, targets, held={T0, T1, U0}, log_dirs={"/a", "/b"}, **more)


def test_one_request_goes_to_the_broker_itself_by_log_dir_and_topic() -> None:
    manager = AlteringManager({T0: 0, T1: 0, U0: 0})
    with noted() as writes:
        assert alter(manager, {T1: "/a", U0: "/b", T0: "/a"}) == {}
    assert manager.sent == [({"/a": {"t": [0, 1]}, "/b": {"u": [0]}}, 3)]
    assert writes == [ClusterWrite(Kind.LOG_DIRS, "3")]


def test_nothing_is_sent_where_nothing_is_asked_for() -> None:
    manager = AlteringManager({})
    assert alter(manager, {}) == {}
    assert manager.sent == []


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ({TopicPartition("t", 9): "/a"}, "broker 3 does not have t-9"),  # else the broker remembers the log dir for it
        ({T0: "/c"}, "broker 3 has no log dir /c"),
    ],
)
def test_what_the_broker_does_not_have_is_never_sent(targets: dict[TopicPartition, str], said: str) -> None:
    manager = AlteringManager({})
    with pytest.raises(WriteError, match=said):
        alter(manager, targets)
    assert manager.sent == []


def test_what_a_broker_refuses_or_leaves_out_of_its_answer_is_named_beside_what_it_does() -> None:
    targets = {T0: "/a", T1: "/a", U0: "/a"}
    refused = alter(AlteringManager({T0: 56, T1: 0, U0: None}), targets)
    assert refused == {T0: "KafkaStorageError", U0: "the broker's answer does not name it"}


@pytest.mark.parametrize("code", [3, 9])
def test_a_replica_that_has_left_the_broker_is_no_refusal(code: int) -> None:
    assert alter(AlteringManager({T0: code, T1: 0}), {T0: "/a", T1: "/a"}) == {}


def test_a_user_who_may_not_is_told_what_it_needs() -> None:
    with noted() as writes, pytest.raises(WriteDeniedError, match="needs Alter on the cluster"):
        alter(AlteringManager({T0: 31}), {T0: "/a"})
    assert writes == []


def test_without_an_answer_the_outcome_is_unknown() -> None:
    with noted() as writes, pytest.raises(ReadError, match="whether it was carried out is unknown"):
        alter(AlteringManager(KafkaConnectionError()), {T0: "/a"})
    assert writes == [ClusterWrite(Kind.LOG_DIRS, "3", is_certain=False)]


def test_a_worker_that_stood_still_sends_nothing() -> None:
    manager = AlteringManager({T0: 0})
    with pytest.raises(LockLostError, match="Nothing was sent"):
        alter(manager, {T0: "/a"}, not_later_than=0.0)
    assert manager.sent == []
