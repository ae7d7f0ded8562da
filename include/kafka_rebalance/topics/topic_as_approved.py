"""Whether a topic is as the approved change was to make it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import PartitionView, TopicPartition
from kafka_rebalance.run.check_result import Check, CheckName


def check_new_partitions(
    topic: str, wanted: Mapping[int, Sequence[int]], total: int, view: ClusterView
) -> tuple[Check, ...]:
    """`partition_count`, and `new_partition` for each new one: list as approved, a leader, live replicas in sync.

    `total`: partitions that the whole topic is to have.
    """
    found = {tp.partition: partition for tp, partition in view.partitions.items() if tp.topic == topic}
    counts = f"{total} partitions", f"{len(found)} partitions", len(found) == total
    new = (_partition(topic, number, held, found.get(number), view) for number, held in sorted(wanted.items()))
    return (Check(CheckName.PARTITION_COUNT, topic, *counts), *new)


def _partition(topic: str, number: int, wanted: Sequence[int], found: PartitionView | None, view: ClusterView) -> Check:
    live = [broker for broker in wanted if broker in view.brokers]
    expectation = f"replicas {list(wanted)} in this order, led by one of them, {sorted(live)} in sync"
    check = partial(Check, CheckName.NEW_PARTITION, str(TopicPartition(topic, number)), expectation)
    if found is None:
        return check("it does not exist yet", False)
    if found.state is None:
        return check("the controller has not initialised it", False)
    finding = f"replicas {list(found.replicas)}, leader {found.leader}, {sorted(found.isr)} in sync"
    return check(finding, found.replicas == tuple(wanted) and found.leader in wanted and set(found.isr) >= set(live))


def check_configs(topic: str, wanted: Mapping[str, str | None], now: Mapping[str, str]) -> Iterable[Check]:
    """`config` for each key that was to change; None is a key that was to be removed."""
    for key, value in sorted(wanted.items()):
        found = now.get(key)
        yield Check(CheckName.CONFIG, f"{topic} {key}", _text(value), _text(found), found == value)


def check_deleted(
    topic: str, view: ClusterView, *, marked: bool, topic_left: bool, config_left: bool
) -> tuple[Check, ...]:
    """`deleted`: a deletion has ended only when assignment, config and marker of the topic are all gone.

    `topic_left` and `config_left` are of the deleted topic: somebody may have made another one under its name since.
    """
    held = {broker for tp, p in view.partitions.items() if tp.topic == topic for broker in p.replicas}
    down = sorted(held - set(view.brokers))
    waits = f", waits for broker {', '.join(map(str, down))}, which is down" if down else ""
    kept = "it is there, and its deletion is no longer requested: the brokers refuse deletions"
    there = f"it is there{waits}" if marked else kept
    left = {
        f"/brokers/topics/{topic}": there if topic_left else None,
        f"/config/topics/{topic}": "it is there" if config_left else None,
        f"/admin/delete_topics/{topic}": "it is there" if marked else None,
    }
    return tuple(Check(CheckName.DELETED, path, "gone", found or "gone", not found) for path, found in left.items())


def _text(value: str | None) -> str:
    return "not set" if value is None else repr(value)
