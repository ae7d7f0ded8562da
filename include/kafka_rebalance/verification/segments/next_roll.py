"""When a segment that begins now is rolled: at the first append for which Kafka itself decides so.

An estimate: appends of one size come at one rate, their timestamps are the time at which they come, and jitter, which
only makes it sooner, is left out. A log that nobody appends to never rolls: the decision is taken with each append.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafka_rebalance.documents.segments import SegmentRoll, SegmentRolls
from kafka_rebalance.errors import KafkaRuleError, ReadError
from kafka_rebalance.kafka.segment_roll import EffectiveRollSettings, RollReason, should_roll
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.verification.segments.cluster_configs import ClusterConfigs
from kafka_rebalance.verification.segments.open_files import LEAST_BATCH_BYTES, Placed
from kafka_rebalance.verification.segments.roll_rules import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class ExpectedRoll:
    """Why, and how long after it began; `segment_bytes` is what the segment holds then."""

    reason: RollReason
    after_seconds: float
    segment_bytes: int


def expected_roll(values: EffectiveRollSettings, bytes_per_second: float, append_bytes: int = 0) -> ExpectedRoll | None:
    """The roll of a segment to which so much is appended, `append_bytes` at least at a time; None: nothing comes in."""
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

    # By then it is full. What rolls a segment rolls a longer one too, so the first append is found by halving.
    most = values.segment_bytes // append + 1
    appends = bisect_left(range(most), True, key=lambda count: decided(count) is not None)
    reason = decided(appends)
    assert reason is not None
    return ExpectedRoll(reason, appends * append / bytes_per_second, appends * append)


@dataclass(frozen=True, slots=True)
class ExpectedRolls:
    """The fastest partition of each topic that is written to, the soonest roll first; `idle`: topics that are not."""

    rolls: tuple[tuple[TopicPartition, ExpectedRoll], ...]
    idle: int

    def kept(self, most: int) -> SegmentRolls:
        """For segments.json: no more than `most`, all of them counted by their reason."""
        reasons = Counter(roll.reason for _, roll in self.rolls)
        return SegmentRolls(
            {reason: reasons[reason] for reason in RollReason if reasons[reason]},
            self.idle,
            tuple(
                SegmentRoll(*name, str(roll.reason), round(roll.after_seconds, 3), roll.segment_bytes)
                for name, roll in self.rolls[:most]
            ),
        )


def expected_rolls(
    placed: Iterable[Placed], written: Mapping[TopicPartition, float], configs: ClusterConfigs
) -> ExpectedRolls:
    """`written`: bytes a second that come in. Settings are those of each partition's first replica.

    A topic whose settings are not known is in neither figure: that is a finding of its own.
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
    return ExpectedRolls(tuple(sorted(found, key=lambda one: (one[1].after_seconds, one[0]))), idle)
