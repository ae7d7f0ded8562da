"""What a broker of the model answers to each of Kafka's requests, as kafka-python's classes ask it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace as Answer
from typing import Any
from uuid import UUID

from support.kraft_model.cluster_metadata import NO_LEADER, Image, Refused
from support.kraft_model.model_controller import ModelController, Operation

CLUSTER_ID = "model-cluster-000001"
SIZE_BYTES, DISK_BYTES = 1_000_000, 1_000_000_000
TOPIC, BROKER = 2, 4  # ConfigResource.Type
_NOT_THIS_BROKER = 42
_SOURCES = {"topics": 1, "brokers": 2}  # DescribeConfigsResponse.ConfigSource

_EVERYTHING = tuple(range(3, 13))  # AclOperation: the model's user may do all of it


def entity_of(kind: int, name: str) -> str:
    return f"{'topics' if kind == TOPIC else 'brokers'}/{name}"


def config_changes(request: Any) -> dict[str, list[Operation]]:
    """By entity."""
    return {
        entity_of(one.resource_type, one.resource_name): [
            (each.name, each.config_operation, each.value) for each in one.configs
        ]
        for one in request.resources
    }


def answer(controller: ModelController, request: Any, broker: int) -> Any:
    """By this broker, which forwards to the controller what is the controller's."""
    return _ANSWERS[type(request).__name__.removesuffix("Request")](controller, request, broker)


def _quorum(controller: ModelController, request: Any, broker: int) -> Any:
    end = len(controller.log)
    listed = {
        node: Answer(replica_id=node, log_end_offset=end if node == controller.leader else at + 1)
        for node, at in sorted(controller.applied.items())
    }
    found = Answer(
        error_code=0,
        leader_id=controller.leader,
        leader_epoch=controller.epoch,
        current_voters=[listed[node] for node in sorted(controller.voters)],
        observers=[one for node, one in listed.items() if node not in controller.voters],
    )
    return Answer(error_code=0, topics=[Answer(partitions=[found])])


def _api_versions(controller: ModelController, request: Any, broker: int) -> Any:
    return Answer(finalized_features_epoch=controller.applied[broker])


def _cluster(controller: ModelController, request: Any, broker: int) -> Any:
    seen = controller.seen_by(broker)
    fenced = seen.fenced if controller.keeps_elr else frozenset()  # below 4.0 fenced brokers are missing
    listed = [
        Answer(broker_id=one, host="model", port=9092, rack=seen.racks[one], is_fenced=one in fenced)
        for one in sorted(seen.live | fenced)
    ]
    told = {"brokers": listed, "cluster_id": CLUSTER_ID, "controller_id": broker, "authorized_operations": _EVERYTHING}
    return Answer(error_code=0, error_message=None, **told)


def _metadata(controller: ModelController, request: Any, broker: int) -> Any:
    seen = controller.seen_by(broker)
    names = sorted(seen.topics) if request.topics is None else [topic.name for topic in request.topics]
    return Answer(topics=[_topic(seen, name) for name in names])


def _topic(seen: Image, name: str) -> Any:
    if name not in seen.topics:
        return Answer(name=name, error_code=3, topic_id=UUID(int=0), partitions=[], is_internal=False)
    partitions = [
        Answer(
            error_code=5 if one.leader == NO_LEADER else 0,
            partition_index=number,
            replica_nodes=list(one.replicas),
            isr_nodes=list(one.isr),
            leader_id=one.leader,
            leader_epoch=one.leader_epoch,
        )
        for number, one in seen.of_topic(name).items()
    ]
    identity = {"topic_id": UUID(int=seen.topics[name]), "authorized_operations": _EVERYTHING}
    return Answer(name=name, error_code=0, partitions=partitions, is_internal=False, **identity)


def _topic_partitions(controller: ModelController, request: Any, broker: int) -> Any:
    seen = controller.seen_by(broker)
    topics = [
        Answer(
            name=topic.name,
            partitions=[
                Answer(partition_index=number, eligible_leader_replicas=list(one.elr), last_known_elr=None)
                for number, one in seen.of_topic(topic.name).items()
            ],
        )
        for topic in request.topics
        if topic.name in seen.topics
    ]
    return Answer(topics=topics, next_cursor=None)


def _moves(controller: ModelController, request: Any, broker: int) -> Any:
    """By the controller itself."""
    by_topic: dict[str, list[Any]] = {}
    for (topic, number), one in sorted(controller.image.partitions.items()):
        if one.moves:
            marks = {"adding_replicas": list(one.adding), "removing_replicas": list(one.removing)}
            listed = Answer(partition_index=number, replicas=list(one.replicas), **marks)
            by_topic.setdefault(topic, []).append(listed)
    topics = [Answer(name=topic, partitions=partitions) for topic, partitions in by_topic.items()]
    return Answer(error_code=0, error_message=None, topics=topics)


def _alter(controller: ModelController, request: Any, broker: int) -> Any:
    responses = []
    for topic in request.topics:
        said = []
        for one in topic.partitions:
            code, text = _tried(controller.alter, (topic.name, one.partition_index), one.replicas)
            said.append(Answer(partition_index=one.partition_index, error_code=code, error_message=text))
        responses.append(Answer(name=topic.name, partitions=said))
    return Answer(error_code=0, error_message=None, responses=responses)


def _elect(controller: ModelController, request: Any, broker: int) -> Any:
    results = []
    for topic in request.topic_partitions:
        said = []
        for number in topic.partitions:
            code, text = _tried(controller.elect, (topic.topic, number))
            said.append(Answer(partition_id=number, error_code=code, error_message=text))
        results.append(Answer(topic=topic.topic, partition_result=said))
    return Answer(error_code=0, replica_election_results=results)


def _configs(controller: ModelController, request: Any, broker: int) -> Any:
    seen, results = controller.seen_by(broker), []
    for one in request.resources:
        name, code = one.resource_name, 0
        entity = entity_of(one.resource_type, name)
        if one.resource_type == TOPIC and name not in seen.topics:
            code = 3
        if one.resource_type == BROKER and name not in ("", str(broker)):
            code = _NOT_THIS_BROKER
        values = {}
        if name and not code:
            values = seen.config(entity) if one.resource_type == TOPIC else controller.own_config(broker)
        source = _SOURCES[entity.partition("/")[0]]
        listed = [Answer(name=key, value=value, config_source=source) for key, value in sorted(values.items())]
        results.append(Answer(resource_name=name, error_code=code, error_message=None, configs=listed))
    return Answer(results=results)


def _change_configs(controller: ModelController, request: Any, broker: int) -> Any:
    responses = []
    for entity, operations in config_changes(request).items():
        kind, _, name = entity.partition("/")
        if kind == "brokers" and name != str(broker):
            code, text = _NOT_THIS_BROKER, f"Unexpected broker id, expected {broker}, but received {name}"
        else:
            code, text = _tried(controller.change_config, entity, operations)
        responses.append(Answer(error_code=code, error_message=text))
    return Answer(responses=responses)


def _log_dirs(controller: ModelController, request: Any, broker: int) -> Any:
    seen = controller.seen_by(broker)
    asked = None if request.topics is None else {(one.topic, each) for one in request.topics for each in one.partitions}
    by_topic: dict[str, list[Any]] = {}
    for (topic, number), one in sorted(seen.partitions.items()):
        if broker in one.replicas and (asked is None or (topic, number) in asked):
            size = SIZE_BYTES if broker in one.isr else 0
            held = Answer(partition_index=number, partition_size=size, is_future_key=False)
            by_topic.setdefault(topic, []).append(held)
    topics = [Answer(name=topic, partitions=held) for topic, held in by_topic.items()]
    made = Answer(error_code=0, log_dir="/data", topics=topics, total_bytes=DISK_BYTES, usable_bytes=DISK_BYTES // 2)
    return Answer(error_code=0, results=[made])


def _tried(act: Callable[..., None], *arguments: Any) -> tuple[int, str | None]:
    try:
        act(*arguments)
    except Refused as refused:
        return refused.code, refused.text
    return 0, None


def _may_create(controller: ModelController, request: Any, broker: int) -> Any:
    """Only whether the user may, which is all that is asked of it."""
    assert request.validate_only
    return Answer(topics=[Answer(name=one.name, error_code=0, error_message=None) for one in request.topics])


_ANSWERS: dict[str, Callable[[ModelController, Any, int], Any]] = {
    "CreateTopics": _may_create,
    "DescribeQuorum": _quorum,
    "ApiVersions": _api_versions,
    "DescribeCluster": _cluster,
    "DescribeTopicPartitions": _topic_partitions,
    "Metadata": _metadata,
    "ListPartitionReassignments": _moves,
    "AlterPartitionReassignments": _alter,
    "ElectLeaders": _elect,
    "DescribeConfigs": _configs,
    "IncrementalAlterConfigs": _change_configs,
    "DescribeLogDirs": _log_dirs,
}
