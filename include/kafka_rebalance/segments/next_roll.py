"""When Kafka rolls a segment that begins now: at the first append for which Kafka itself decides so.

This is an estimate. Appends of one size come at one rate, and their timestamps are the time at which they come. Jitter
is left out; it only makes the roll sooner. Kafka decides with each append, so a log without appends never rolls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafka_rebalance.documents.cluster_configs import ClusterConfigs
from kafka_rebalance.documents.segments import SegmentRoll, SegmentRolls
from kafka_rebalance.errors import KafkaRuleError, ReadError
from kafka_rebalance.kafka.segment_roll import EffectiveRollSettings, RollReason, should_roll
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.segments.open_files import LEAST_BATCH_BYTES, Placed
from kafka_rebalance.segments.roll_rules import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES


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
    found, idle = [], 0
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
            found.append((partition.topic_partition, roll))
    reasons = Counter(roll.reason for _, roll in found)
    return SegmentRolls(
        {reason: reasons[reason] for reason in RollReason if reasons[reason]},
        idle,
        tuple(
            SegmentRoll(*name, str(roll.reason), round(roll.after_seconds, 3), roll.segment_bytes)
            for name, roll in sorted(found, key=lambda one: (one[1].after_seconds, one[0]))[:most]
        ),
    )
