"""What real controllers without ZooKeeper write while replicas move, read from their own log.

Each step is a short list. Asked for by the test: `["alter", partition, replicas or null, error code]`,
`["elect", partition, code]`, `["config", [[key, operation, value]], code]`, `["expand", replicas]`, `["delete"]`.
Written by the controller: `["fence", broker]`, `["unfence", broker]`, `["configs", {key: value}]`, `["gone"]`, and
`["change", partition, replicas, adding, removing, isr, leader, leader epoch]`, the partition after that record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)

from kafka_rebalance.admin.cluster_view import read_view
from kafka_rebalance.admin.quorum import read_quorum
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.cluster_writes import Kind
from kafka_rebalance.model.partition import PartitionView, TopicPartition
from support.kafka.java.kafka_classes import KafkaClasses
from support.waiting import wait

Step = list[Any]
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER = 2, 4
_ENTRY = re.compile(r"offset: (\d+) .*payload: (\{.*\})\s*$")


class Recorder:
    """One scenario on a topic of its own, on a cluster of four brokers."""

    def __init__(self, cluster: LocalCluster, wire: Wire, topic: str) -> None:
        self.cluster, self.wire, self.topic = cluster, wire, topic
        self.asked: list[tuple[int, Step]] = []  # with the end of the controllers' log just before

    def begin(self, before: Mapping[int, Sequence[int]], *, slow: bool) -> None:
        self.cluster.create_topic(self.topic, before, config=dict.fromkeys(LISTS, "*") if slow else {})
        if slow:
            self.cluster.produce(self.topic, dict.fromkeys(before, 3_000_000))
        self.settle()
        if slow:
            self.throttle("20000")

    def throttle(self, rate: str | None) -> None:
        for broker in sorted(read_view(self.wire, ()).brokers):
            self._send_configs(BROKER, str(broker), [(key, DELETE if rate is None else SET, rate) for key in RATES])

    def partition(self, number: int = 0) -> PartitionView | None:
        return read_view(self.wire, [self.topic]).partitions.get(TopicPartition(self.topic, number))

    def alter(self, target: Sequence[int] | None, number: int = 0) -> None:
        of = AlterPartitionReassignmentsRequest.ReassignableTopic
        one = of.ReassignablePartition(partition_index=number, replicas=None if target is None else list(target))
        request = AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=[of(name=self.topic, partitions=[one])])
        answer = self._ask(request, lambda said: ["alter", number, target and list(target), said])
        self._note(answer.responses[0].partitions[0].error_code)

    def elect(self, number: int = 0) -> None:
        of = ElectLeadersRequest.TopicPartitions(topic=self.topic, partitions=[number])
        request = ElectLeadersRequest(election_type=0, topic_partitions=[of], timeout_ms=30_000)
        answer = self._ask(request, lambda said: ["elect", number, said])
        self._note(answer.replica_election_results[0].partition_result[0].error_code)

    def config(self, *operations: tuple[str, int, str | None]) -> None:
        self._mark(lambda said: ["config", [list(one) for one in operations], said])
        self._note(self._send_configs(TOPIC, self.topic, operations))

    def expand(self, replicas: Sequence[int], partitions: int) -> None:
        of = CreatePartitionsRequest.CreatePartitionsTopic
        placed = [of.CreatePartitionsAssignment(broker_ids=list(replicas))]
        topics = [of(name=self.topic, count=partitions, assignments=placed)]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=30_000, validate_only=False)
        answer = self._ask(request, lambda said: ["expand", list(replicas), said])
        self._note(answer.results[0].error_code)

    def delete(self) -> None:
        state = DeleteTopicsRequest.DeleteTopicState(name=self.topic, topic_id=None)
        request = DeleteTopicsRequest(topics=[state], timeout_ms=30_000)
        answer = self._ask(request, lambda said: ["delete", said])
        self._note(answer.responses[0].error_code)

    def kill(self, broker: int) -> None:
        self.cluster.kill_broker(broker)
        wait(f"broker {broker} is fenced", lambda: broker not in read_view(self.wire, ()).brokers)

    def start(self, broker: int) -> None:
        self.cluster.start_broker(broker)

    def settle(self) -> None:
        """Nothing of the topic moves, and every replica that is up is in sync."""

        def settled() -> bool:
            view = read_view(self.wire, [self.topic])
            return all(
                not one.in_motion and set(one.isr) == set(one.replicas) & view.brokers.keys()
                for one in view.partitions.values()
            )

        wait(f"{self.topic} has settled", settled)

    def lift(self) -> None:
        self.throttle(None)
        self.settle()

    def _send_configs(self, kind: int, name: str, operations: Sequence[tuple[str, int, str | None]]) -> int:
        of = IncrementalAlterConfigsRequest.AlterConfigsResource
        configs = [of.AlterableConfig(name=key, config_operation=do, value=value) for key, do, value in operations]
        resource = of(resource_type=kind, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        to = int(name) if kind == BROKER else None
        code: int = self.wire.write(request, "a config", Kind.CONFIG, name, broker=to).responses[0].error_code
        return code

    def _ask(self, request: Any, step: Callable[[int], Step]) -> Any:
        self._mark(step)
        return self.wire.write(request, "a recorded request", Kind.REASSIGNMENT, "")

    def _mark(self, step: Callable[[int], Step]) -> None:
        quorum = read_quorum(self.wire)
        self._end, self._step = quorum.fetched[quorum.leader], step

    def _note(self, code: int) -> None:
        self.asked.append((self._end, self._step(code)))


class Scenario(NamedTuple):
    name: str
    before: Mapping[int, Sequence[int]]
    play: Callable[[Recorder], None]
    slow: bool = False


def _in_turn(*targets: Sequence[int]) -> Callable[[Recorder], None]:
    def play(it: Recorder) -> None:
        for target in targets:
            it.alter(target)
            it.settle()

    return play


def _cancelled(it: Recorder) -> None:
    it.alter(None)
    it.alter([1, 3])
    it.alter(None)
    it.alter([2, 1])
    it.lift()


def _another_target(it: Recorder) -> None:
    it.alter([1, 3])
    it.alter([1, 4])
    it.throttle(None)
    wait("4 is in sync", lambda: _is_in_sync(it, 4))
    it.settle()


def _back_as_target(it: Recorder) -> None:
    it.alter([1, 3])
    it.alter([1, 2])
    it.throttle(None)
    wait("it has ended, or the copy has", lambda: not _moves(it) or _is_in_sync(it, 3))
    if _moves(it):
        it.alter(None)
    it.settle()


def _moves(it: Recorder) -> bool:
    one = it.partition()
    return one is not None and one.in_motion


def _is_in_sync(it: Recorder, broker: int) -> bool:
    one = it.partition()
    return one is not None and broker in one.isr


def _dead_target(it: Recorder) -> None:
    it.kill(4)
    it.alter([1, 4])
    it.start(4)
    it.settle()


def _shrink_to_the_dead(it: Recorder) -> None:
    it.kill(4)
    it.alter([4])
    it.alter(None)
    it.start(4)
    it.settle()


def _shrinks_on_the_way(it: Recorder) -> None:
    it.alter([1, 3])
    it.kill(2)
    it.throttle(None)
    it.start(2)
    it.settle()


def _leader_killed(it: Recorder) -> None:
    it.alter([1, 3])
    it.kill(1)
    it.start(1)
    it.lift()


def _elected(it: Recorder) -> None:
    it.elect()
    it.alter([2, 1])
    it.elect()
    it.kill(1)
    it.alter([1, 2])
    it.elect()
    it.start(1)
    it.settle()
    it.elect()


def _deleted(it: Recorder) -> None:
    it.alter([1, 3])
    it.delete()
    it.throttle(None)


def _expanded(it: Recorder) -> None:
    it.alter([1, 3])
    it.expand([2, 3], 2)  # not as many as partition 0 has in mid-move
    it.expand([2, 3, 4], 2)
    it.lift()


def _throttled(it: Recorder) -> None:
    leaders, followers = LISTS
    it.config((leaders, APPEND, "0:1,0:2"), (followers, APPEND, "0:3"))
    it.config((leaders, APPEND, "0:2,0:4"))
    it.config((leaders, SUBTRACT, "0:9"))
    it.config((leaders, SUBTRACT, "0:1,0:2,0:4"))
    it.config((leaders, SUBTRACT, "0:1"))
    it.config((leaders, DELETE, None), (followers, SET, "*"))
    it.config((followers, APPEND, "0:1"))
    it.config((followers, SET, ""), (followers, APPEND, "0:1"))
    it.config((followers, DELETE, None))
    it.config((followers, SUBTRACT, "0:1"))


def _refused(it: Recorder) -> None:
    for target in ([1, 9], [1, 1], [], [-1, 1]):
        it.alter(target)
    it.alter([1, 2])
    it.alter([1, 2], number=7)


SCENARIOS = (
    Scenario("move", {0: (1, 2)}, _in_turn([2, 3], [4, 1])),
    Scenario("grow", {0: (1, 2)}, _in_turn([1, 2, 3])),
    Scenario("shrink", {0: (1, 2, 3)}, _in_turn([1, 3], [3])),
    Scenario("re-order", {0: (1, 2, 3)}, _in_turn([3, 2, 1], [2, 3, 1])),
    Scenario("refused", {0: (1, 2)}, _refused),
    Scenario("throttle", {0: (1, 2)}, _throttled),
    Scenario("cancel", {0: (1, 2)}, _cancelled, slow=True),
    Scenario("another-target", {0: (1, 2)}, _another_target, slow=True),
    Scenario("back-as-target", {0: (1, 2)}, _back_as_target, slow=True),
    Scenario("delete", {0: (1, 2)}, _deleted, slow=True),
    Scenario("expand", {0: (1, 2)}, _expanded, slow=True),
    Scenario("dead-target", {0: (1, 2)}, _dead_target),
    Scenario("shrink-to-the-dead", {0: (1, 4)}, _shrink_to_the_dead),
    Scenario("ends-early", {0: (2, 4)}, _dead_target),
    Scenario("isr-shrinks", {0: (1, 2)}, _shrinks_on_the_way, slow=True),
    Scenario("leader-killed", {0: (1, 2)}, _leader_killed, slow=True),
    Scenario("election", {0: (1, 2)}, _elected),
)


def play(cluster: LocalCluster, wire: Wire, scenario: Scenario) -> list[tuple[int, Step]]:
    """What was asked, with the end of the controllers' log before each request."""
    it = Recorder(cluster, wire, scenario.name)
    it.begin(scenario.before, slow=scenario.slow)
    end = read_quorum(wire)
    it.asked.append((end.fetched[end.leader], ["begin"]))
    scenario.play(it)
    end = read_quorum(wire)
    it.asked.append((end.fetched[end.leader], ["end"]))
    return it.asked


def read_log(folder: Path, classes: KafkaClasses) -> list[tuple[int, dict[str, Any]]]:
    """(offset, record) of the controllers' log."""
    found = []
    for file in sorted(folder.glob("metadata-101/__cluster_metadata-0/*.log")):
        arguments = ["--cluster-metadata-decoder", "--files", str(file)]
        _, said, _ = classes.run_tool("kafka.tools.DumpLogSegments", arguments)
        for line in said.splitlines():
            entry = _ENTRY.search(line)
            if entry is not None:
                found.append((int(entry[1]), json.loads(entry[2])))
    return found


def steps_of(
    scenario: Scenario, asked: Sequence[tuple[int, Step]], log: Sequence[tuple[int, dict[str, Any]]]
) -> Iterator[Step]:
    """Requests and what the controller wrote, in the order of its log."""
    first, last = asked[0][0], asked[-1][0]
    waiting = list(asked[1:-1])
    topic_id, lists, away = None, dict[int, dict[str, Any]](), set[int]()
    for offset, record in log:
        if offset >= last:
            break
        while waiting and waiting[0][0] <= offset:
            yield waiting.pop(0)[1]
        kind, data = record["type"], record["data"]
        if kind == "TOPIC_RECORD" and data["name"] == scenario.name:
            topic_id = data["topicId"]
        step = _step(kind, data, scenario.name, topic_id, lists, away)
        if step is not None and offset >= first:
            yield step
    yield from (step for _, step in waiting)


def _step(
    kind: str, data: Any, topic: str, topic_id: str | None, lists: dict[int, dict[str, Any]], away: set[int]
) -> Step | None:
    if kind in ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD") and data["topicId"] == topic_id:
        number = data["partitionId"]
        now = lists.setdefault(number, {"adding": [], "removing": [], "epoch": -1})
        for name, key in (("replicas", "replicas"), ("isr", "isr"), ("adding", "addingReplicas")):
            now[name] = now.get(name) if data.get(key) is None else data[key]
        now["removing"] = now["removing"] if data.get("removingReplicas") is None else data["removingReplicas"]
        if data.get("leader", -2) != -2:
            now["leader"], now["epoch"] = data["leader"], now["epoch"] + 1
        return ["change", number, *(now[name] for name in ("replicas", "adding", "removing", "isr", "leader", "epoch"))]
    if kind == "REMOVE_TOPIC_RECORD" and data["topicId"] == topic_id:
        return ["gone"]
    if kind == "CONFIG_RECORD" and data["resourceType"] == TOPIC and data["resourceName"] == topic:
        return ["configs", {data["name"]: data["value"]}]
    if kind == "BROKER_REGISTRATION_CHANGE_RECORD" and data.get("fenced"):
        broker, gone = data["brokerId"], data["fenced"] == 1
        if gone != (broker in away):
            (away.add if gone else away.discard)(broker)
            return ["fence" if gone else "unfence", broker]
    return None
