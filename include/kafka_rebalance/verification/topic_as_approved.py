"""Whether a topic is what a change was to make of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import PartitionView, TopicPartition
from kafka_rebalance.verification.check_result import Check, CheckName


def check_new_partitions(
    topic: str, wanted: Mapping[int, Sequence[int]], total: int, view: ClusterView
) -> tuple[Check, ...]:
    """`partition_count`, and for each new partition `new_partition`: its lists as approved, led, and in sync where up.

    `total` is how many partitions the whole topic is to have.
    """
    found = {tp.partition: partition for tp, partition in view.partitions.items() if tp.topic == topic}
    count = Check(
        CheckName.PARTITION_COUNT, topic, f"{total} partitions", f"{len(found)} partitions", len(found) == total
    )
    return (
        count,
        *(_partition(topic, number, held, found.get(number), view) for number, held in sorted(wanted.items())),
    )


def _partition(topic: str, number: int, wanted: Sequence[int], found: PartitionView | None, view: ClusterView) -> Check:
    live = [broker for broker in wanted if broker in view.brokers]
    expectation = f"replicas {list(wanted)} in this order, led by one of them, {sorted(live)} in sync"
    subject = str(TopicPartition(topic, number))
    if found is None:
        return Check(CheckName.NEW_PARTITION, subject, expectation, "it does not exist yet", False)
    if found.state is None:
        return Check(CheckName.NEW_PARTITION, subject, expectation, "the controller has not initialised it", False)
    finding = f"replicas {list(found.replicas)}, leader {found.leader}, {sorted(found.isr)} in sync"
    passed = found.replicas == tuple(wanted) and found.leader in wanted and set(found.isr) >= set(live)
    return Check(CheckName.NEW_PARTITION, subject, expectation, finding, passed)


def check_configs(topic: str, wanted: Mapping[str, str | None], now: Mapping[str, str]) -> Iterable[Check]:
    """`config` for each key that was to change; None is a key that was to be removed."""
    for key, value in sorted(wanted.items()):
        found = now.get(key)
        yield Check(CheckName.CONFIG, f"{topic} {key}", _text(value), _text(found), found == value)


def check_deleted(
    topic: str, view: ClusterView, *, marked: bool, topic_left: bool, config_left: bool
) -> tuple[Check, ...]:
    """`deleted`: a deletion has ended only when assignment, config and marker of the topic are all gone.

    What is left is of the topic that was deleted: another one may have been made under its name since.
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
