"""When a segment is rolled next, estimated by Kafka's own decision."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.kafka.segment_roll import EffectiveRollSettings, RollReason
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.segments.open_files import expected_roll, expected_rolls
from support.documents.segment_configs import configs, placed, reported

DAY_SECONDS = 86_400
GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10


def settings(**overrides: Any) -> EffectiveRollSettings:
    known = configs({"t": {key.replace("_", "."): value for key, value in overrides.items()}})
    return known.roll_settings("t", 1)


@pytest.mark.parametrize(
    ("overrides", "rate", "append", "reason", "seconds"),
    [
        # Kafka's defaults: a GiB, or a week
        ({}, MIB, KIB, RollReason.SIZE, 1024),
        ({}, 100, KIB, RollReason.TIME, 7 * DAY_SECONDS),
        ({"segment_ms": 3_600_000}, MIB // 16, KIB, RollReason.TIME, 3600),
        # 1 MiB of index: 131,072 offsets would be enough, but there is room for 87,381 times, one of them kept
        ({"segment_index_bytes": MIB}, MIB, 8 * KIB, RollReason.TIME_INDEX, 87_380 * 8 / 1024),
    ],
)
def test_the_condition_that_holds_first_says_why_and_when(
    overrides: dict[str, int], rate: float, append: int, reason: RollReason, seconds: float
) -> None:
    found = expected_roll(settings(**overrides), rate, append)
    assert found is not None
    assert found.reason is reason
    assert found.after_seconds == pytest.approx(seconds, abs=2 * append / rate)
    assert found.segment_bytes == pytest.approx(found.after_seconds * rate)


def test_a_log_that_nobody_appends_to_never_rolls() -> None:
    assert expected_roll(settings(), 0.0, KIB) is None


@pytest.mark.slow
@given(
    st.integers(14, 2**31 - 1),
    st.integers(1, 10**12),
    st.integers(12, 10 * MIB),
    st.floats(1e-3, 1e10),
    st.integers(0, 2 * MIB),
)
def test_a_segment_is_never_larger_or_older_than_its_limits(
    segment_bytes: int, segment_ms: int, index_bytes: int, rate: float, append: int
) -> None:
    values = settings(segment_bytes=segment_bytes, segment_ms=segment_ms, segment_index_bytes=index_bytes)
    found = expected_roll(values, rate, append)
    assert found is not None
    assert math.isfinite(found.after_seconds)
    assert found.segment_bytes <= segment_bytes
    between = max(61, append) / rate
    assert found.after_seconds <= segment_ms / 1000 + between + 0.001


def test_each_topic_is_told_by_its_fastest_partition_the_soonest_first() -> None:
    known = configs({"slow": {}, "fast": {"segment.bytes": 4 * MIB}, "idle": {}, "broken": {"segment.ms": "soon"}})
    partitions = [placed(name, (1, 2)) for name in ("slow-0", "fast-0", "fast-1", "idle-0", "broken-0")]
    rates = {("slow", 0): 10.0, ("fast", 0): MIB / 8, ("fast", 1): float(MIB), ("broken", 0): 5.0}
    written = {TopicPartition(*key): rate for key, rate in rates.items()}
    found = expected_rolls(partitions, written, known, 9)
    assert [(roll.topic, roll.partition, roll.reason) for roll in found.soonest] == [
        ("fast", 1, RollReason.SIZE),
        ("slow", 0, RollReason.TIME),
    ]
    assert found.idle == 1
    first = expected_rolls(partitions, written, known, 1)
    assert first.topics == {"size": 1, "time": 1}
    assert [roll.topic for roll in first.soonest] == ["fast"]


def test_the_settings_are_those_of_the_broker_that_is_to_lead() -> None:
    known = configs({"t": {}}, {2: reported(log_roll_ms=1000)})
    for replicas, reason in (((1, 2), RollReason.SIZE), ((2, 1), RollReason.TIME)):
        (roll,) = expected_rolls([placed("t-0", replicas)], {TopicPartition("t", 0): float(MIB)}, known, 9).soonest
        assert roll.reason == reason
