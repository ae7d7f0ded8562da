"""What segment settings cost: open files, and when a segment rolls next."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafka_rebalance.documents.segments import (
    BrokerFiles,
    OpenFiles,
    SegmentFinding,
    SegmentRoll,
    SegmentRolls,
    segment_finding,
)
from kafka_rebalance.documents.snapshot import ClusterConfigs
from kafka_rebalance.errors import KafkaRuleError, ReadError
from kafka_rebalance.kafka.segment_roll import UNLIMITED, EffectiveRollSettings, RollReason, should_roll
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.segments.roll_rules import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES

# Open files and memory maps that replicas cost a broker, before, during and after a move.
#
# This is an estimate from sizes and settings. Each segment has its .log file open and two memory maps (offset and time
# index). From 2.4 on, a broker makes a map with its first use, so there may be fewer. Connections need more
# descriptors.


MAX_MAP_COUNT = 65_530  # Linux' default of vm.max_map_count, which no broker reports
LEAST_BATCH_BYTES = 61  # DefaultRecordBatch.RECORD_BATCH_OVERHEAD: no segment but the active one holds less


class Placed(NamedTuple):
    """One partition as the snapshot has it; bytes of one replica."""

    topic_partition: TopicPartition
    replicas: tuple[int, ...]
    size_bytes: int


_NONE = OpenFiles(0, 0, 0)


def _together(files: OpenFiles, more: OpenFiles, sign: int = 1) -> OpenFiles:
    return OpenFiles(
        files.segments + sign * more.segments,
        files.memory_maps + sign * more.memory_maps,
        files.index_bytes + sign * more.index_bytes,
    )


def replica_files(size_bytes: int, values: EffectiveRollSettings, append_bytes: int = 0) -> OpenFiles:
    """Of one replica: max(bytes / segment.bytes, retention.ms / segment.ms) + 1 segments, the active one last.

    `size_bytes`, and the retention of a tiered topic, are those of the disk. By time there are no more segments than
    appends of at least `append_bytes`.
    """
    by_size = -(-size_bytes // values.segment_bytes)
    by_time = 0
    if values.deletes and values.on_disk_ms != UNLIMITED:
        by_time = min(-(-values.on_disk_ms // values.roll_ms), size_bytes // max(LEAST_BATCH_BYTES, append_bytes))
    index_bytes = values.segment_index_bytes
    preallocated = sum(index_bytes - index_bytes % entry for entry in (OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES))
    segments = max(by_size, by_time) + 1
    return OpenFiles(segments, 2 * segments, preallocated)


def files_now(placed: Iterable[Placed], configs: ClusterConfigs) -> dict[int, OpenFiles]:
    """By broker. A replica whose settings are not known does not count: that is a finding of its own."""
    files: dict[int, OpenFiles] = dict.fromkeys(configs.brokers, _NONE)
    for partition in placed:
        for broker in partition.replicas:
            more = _replica(partition.topic_partition.topic, broker, partition.size_bytes, configs)
            files[broker] = _together(files.get(broker, _NONE), more)
    return files


def files_of_moves(
    now: Mapping[int, OpenFiles], moves: Sequence[Move], configs: ClusterConfigs
) -> tuple[BrokerFiles, ...]:
    """Every broker before, during and after these moves, by id."""
    during, lost = defaultdict(lambda: _NONE, now), defaultdict[int, OpenFiles](lambda: _NONE)
    for move in moves:
        for files, brokers in ((during, move.added), (lost, move.removed)):
            for broker in brokers:
                more = _replica(move.topic_partition.topic, broker, move.size_bytes, configs)
                files[broker] = _together(files[broker], more)
    return tuple(
        BrokerFiles(broker, now.get(broker, _NONE), files, _together(files, lost[broker], -1))
        for broker, files in sorted(during.items())
    )


def too_many_maps(files: Iterable[BrokerFiles]) -> tuple[SegmentFinding, ...]:
    """Brokers that need more memory maps than Linux gives a process by default."""
    return tuple(
        segment_finding(
            "too_many_maps",
            "warning",
            (),
            (broker_files.broker,),
            f"about {_maps(broker_files)}; Linux gives a process {MAX_MAP_COUNT}",
            "2 a segment; max(bytes / segment.bytes, retention.ms / segment.ms) + 1 segments a replica",
            "Raise vm.max_map_count and the limit of open files on its machine, or segment.bytes and segment.ms.",
        )
        for broker_files in files
        if broker_files.during.memory_maps > MAX_MAP_COUNT
    )


def _maps(files: BrokerFiles) -> str:
    if files.before == files.during == files.after:
        return f"{files.before.memory_maps} memory maps"
    return (
        f"{files.before.memory_maps} memory maps now, {files.during.memory_maps} while it receives copies, "
        f"{files.after.memory_maps} afterwards"
    )


def _replica(topic: str, broker: int, size_bytes: int, configs: ClusterConfigs) -> OpenFiles:
    if broker not in configs.brokers:
        return _NONE
    try:
        return replica_files(size_bytes, configs.roll_settings(topic, broker), configs.append_bytes.get(topic, 0))
    except (KafkaRuleError, ReadError):
        return _NONE


# When Kafka rolls a segment that begins now: at the first append for which Kafka itself decides so.
#
# This is an estimate. Appends of one size come at one rate, and their timestamps are the time at which they come.
# Jitter is left out; it only makes the roll sooner. Kafka decides with each append, so a log without appends never
# rolls.


@dataclass(frozen=True, slots=True)
class ExpectedRoll:
    """`after_seconds`: since the segment began. `segment_bytes`: what it holds then."""

    reason: RollReason
    after_seconds: float
    segment_bytes: int


def expected_roll(values: EffectiveRollSettings, bytes_per_second: float, append_bytes: int = 0) -> ExpectedRoll | None:
    """The roll of a segment that takes so many bytes a second; None: nothing comes in.

    `append_bytes`: the least bytes of an append.
    """
    if bytes_per_second <= 0:
        return None
    append = max(LEAST_BATCH_BYTES, append_bytes)
    # An entry is due once more than the interval has come since the last one (LogSegment.append).
    appends_per_entry = values.index_interval_bytes // append + 1

    def decided(appends: int) -> RollReason | None:
        """On the next append, with so many in the segment."""
        now_ms = int(appends * append / bytes_per_second * 1000)
        return should_roll(
            segment_size=appends * append,
            max_segment_bytes=values.segment_bytes,
            messages_size=append,
            first_batch_timestamp=0 if appends else None,
            max_timestamp_in_messages=now_ms,
            created_ms=0,
            now_ms=now_ms,
            segment_ms=values.roll_ms,
            roll_jitter_ms=0,
            offset_index_entries=appends // appends_per_entry,
            offset_index_max_entries=values.segment_index_bytes // OFFSET_ENTRY_BYTES,
            time_index_entries=appends // appends_per_entry,
            time_index_max_entries=values.segment_index_bytes // TIME_ENTRY_BYTES,
            base_offset=0,
            max_offset_in_messages=appends,
        )

    # After that many it is full. What rolls a segment also rolls a longer one, so halving finds the first append.
    most = values.segment_bytes // append + 1
    appends = bisect_left(range(most), True, key=lambda count: decided(count) is not None)
    reason = decided(appends)
    assert reason is not None
    return ExpectedRoll(reason, appends * append / bytes_per_second, appends * append)


def expected_rolls(
    placed: Iterable[Placed], written: Mapping[TopicPartition, float], configs: ClusterConfigs, most: int
) -> SegmentRolls:
    """The next roll of each topic's fastest partition: the soonest `most`, and all counted by their reason.

    `written`: bytes a second that come in. Settings are those of each partition's first replica. A topic whose settings
    are not known is not counted: that is a finding of its own.
    """
    fastest: dict[str, Placed] = {}
    for partition in placed:
        topic = partition.topic_partition.topic
        rate = written.get(partition.topic_partition, 0.0)
        if topic not in fastest or rate > written.get(fastest[topic].topic_partition, 0.0):
            fastest[topic] = partition
    rolls, idle = [], 0
    for topic, partition in sorted(fastest.items()):
        try:
            values = configs.roll_settings(topic, partition.replicas[0])
        except (KafkaRuleError, ReadError):
            continue
        rate = written.get(partition.topic_partition, 0.0)
        roll = expected_roll(values, rate, configs.append_bytes.get(topic, 0))
        if roll is None:
            idle += 1
        else:
            rolls.append((partition.topic_partition, roll))
    reasons = Counter(roll.reason for _, roll in rolls)
    return SegmentRolls(
        {reason: reasons[reason] for reason in RollReason if reasons[reason]},
        idle,
        tuple(
            SegmentRoll(*name, str(roll.reason), round(roll.after_seconds, 3), roll.segment_bytes)
            for name, roll in sorted(rolls, key=lambda named: (named[1].after_seconds, named[0]))[:most]
        ),
    )
