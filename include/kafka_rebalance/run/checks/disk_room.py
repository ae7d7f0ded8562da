"""Whether a plan's copies fit on the disks as they are today: on each broker as a whole, and in each log dir."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_rebalance.kafka.log_dir_choice import NONE_ARRIVES, arrivals
from kafka_rebalance.kafka.who_may_receive import open_log_dirs
from kafka_rebalance.model.amounts_in_words import bytes_in_words, share_in_words
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.partition import TopicPartition

# The approver reads in whole percent how full a disk gets. If the plan itself goes beyond its headroom, bytes that
# producers have written since may add so much.
ROUNDED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class LogDirNow:
    path: str
    usable_bytes: int | None  # None: not reported (before 3.3)
    replicas: int  # how many lie in it
    online: bool = True
    cordoned: bool = False


@dataclass(frozen=True, slots=True)
class DiskNow:
    """All disks of one broker together."""

    used_bytes: int  # by everything on them
    capacity_bytes: int | None = None  # None: not known
    approved_peak_bytes: int = 0  # the most that the approved plan puts on them
    log_dirs: Sequence[LogDirNow] = ()

    def allowed_bytes(self, headroom: float) -> float | None:
        """How full it may get: up to the headroom, or to the fill that the approver has read."""
        if self.capacity_bytes is None:
            return None
        approved = self.approved_peak_bytes + ROUNDED_SHARE * self.capacity_bytes
        return min(self.capacity_bytes, max((1 - headroom) * self.capacity_bytes, approved))


@dataclass(frozen=True, slots=True)
class ReplicasNow:
    leaders: Mapping[TopicPartition, int | None]  # bytes of each partition's leader today
    lying: Mapping[TopicPartition, Mapping[int, int]] = field(default_factory=dict)  # bytes of each replica, by broker
    paths: Mapping[TopicPartition, Mapping[int, str]] = field(default_factory=dict)  # its log dir, by broker

    def coming(self, move: Move, broker: int) -> int:
        """Bytes that the broker still has to get: what an earlier attempt copied lies on its disk already."""
        now = self.leaders.get(move.topic_partition)
        return max(0, (move.size_bytes if now is None else now) - self.held(move.topic_partition, broker))

    def held(self, topic_partition: TopicPartition, broker: int) -> int:
        return self.lying.get(topic_partition, {}).get(broker, 0)


def without_room(
    batches: Sequence[Batch], replicas: ReplicasNow, disks: Mapping[int, DiskNow], headroom: float
) -> Iterable[Finding]:
    """Brokers and log directories on which these batches may not fit, one batch after the other."""
    yield from _full_disks(batches, replicas, disks, headroom)
    for batch in batches:
        yield from _full_log_dirs(batch.moves, replicas, disks)


def _full_disks(
    batches: Sequence[Batch], replicas: ReplicasNow, disks: Mapping[int, DiskNow], headroom: float
) -> Iterable[Finding]:
    """Brokers by their fullest batch. Kafka deletes what a batch removes before the next one begins."""
    used = {broker: disk.used_bytes for broker, disk in disks.items()}
    worst: dict[int, tuple[int, int, int]] = {}  # broker -> bytes at the peak, batch, bytes that come in it
    for batch in batches:
        coming: Counter[int] = Counter()
        for move in batch.moves:
            coming.update({broker: replicas.coming(move, broker) for broker in move.added if broker in used})
        for broker, more in coming.items():
            used[broker] += more
            allowed = disks[broker].allowed_bytes(headroom)
            if more and allowed is not None and allowed < used[broker] > worst.get(broker, (0,))[0]:
                worst[broker] = used[broker], batch.number, more
        for move in batch.moves:
            for broker in move.removed:
                if broker in used:
                    used[broker] -= replicas.held(move.topic_partition, broker)
    for broker, (peak, number, more) in sorted(worst.items()):
        capacity, allowed = disks[broker].capacity_bytes or 1, disks[broker].allowed_bytes(headroom) or 0
        yield Finding(
            f"broker {broker}",
            f"{bytes_in_words(disks[broker].used_bytes)} of {bytes_in_words(capacity)} on its disks are in use today. "
            f"Batch {number} brings {bytes_in_words(more)} and would fill them to {share_in_words(peak / capacity)}. "
            f"The approved plan allows {share_in_words(allowed / capacity)}",
            "Start a new Dag run, which plans with the bytes of today. If Kafka has just removed replicas there, wait "
            "until it has deleted them (file.delete.delay.ms, by default 60 s), then clear this task. If the disks are "
            "larger, correct broker_capacities of the Airflow connection",
        )


def _full_log_dirs(moves: Iterable[Move], replicas: ReplicasNow, disks: Mapping[int, DiskNow]) -> Iterable[Finding]:
    """Log directories, on brokers that receive these moves, that are offline or may get more than fits.

    Of those that take new replicas, Kafka puts each into the directory with the fewest, whatever their size. The order
    in which they come is not known, so the largest count. A replica that is there already stays where it is.
    """
    new: dict[int, list[int]] = {}
    begun: dict[int, Counter[str]] = {}  # bytes that still come to replicas that lie there, by log dir
    waiting: Counter[int] = Counter()  # replicas that are not all there
    for move in moves:
        for broker in move.added:
            more = replicas.coming(move, broker)
            path = replicas.paths.get(move.topic_partition, {}).get(broker)
            if path is None:
                new.setdefault(broker, []).append(more)
            else:
                begun.setdefault(broker, Counter())[path] += more
            waiting[broker] += path is None or more > 0
    for broker, count in sorted(waiting.items()):
        dirs = disks[broker].log_dirs if broker in disks and count else ()
        copies, going_on = sorted(new.get(broker, ()), reverse=True), begun.get(broker, Counter[str]())
        offline = [log_dir.path for log_dir in dirs if not log_dir.online]
        if offline:
            yield Finding(
                f"broker {broker}",
                f"log directory {', '.join(offline)} is offline, and the broker is to receive {count} replicas",
                "Repair the disk and restart the broker, then clear this task",
            )
        taking = open_log_dirs(dirs)
        most = dict(zip(taking, arrivals([log_dir.replicas for log_dir in taking], len(copies)), strict=True))
        for log_dir in dirs:
            share = most.get(log_dir, NONE_ARRIVES)  # a replica that lies in a cordoned one goes on there
            needed = sum(copies[: share.most]) + going_on[log_dir.path]
            if log_dir.usable_bytes is not None and needed > log_dir.usable_bytes:
                yield Finding(
                    f"broker {broker}",
                    f"log directory {log_dir.path} has {bytes_in_words(log_dir.usable_bytes)} left and may get "
                    f"{share.most} of {len(copies)} new replicas, {bytes_in_words(needed)}: Kafka puts them into the "
                    "directory with the fewest replicas, not into the one with the most room",
                    "Make room there, or start a new Dag run with fewer partitions_per_batch",
                )
