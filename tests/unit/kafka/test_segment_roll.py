"""When a log segment is rolled, and the effective segment settings of one topic on one broker."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import KafkaRuleError, ReadError
from kafka_rebalance.kafka.segment_roll import (
    BROKER_KEYS,
    TOPIC_KEYS,
    RollReason,
    ValueSource,
    effective_roll_settings,
    should_roll,
)
from support.documents.segment_configs import DEFAULT, DYNAMIC, DYNAMIC_DEFAULT, STATIC, reported

# What a 3.9.2 broker reports with nothing set.
BROKER_DEFAULTS = {key: value for key, value in reported().items() if key in BROKER_KEYS} | {
    "log.local.retention.ms": ("-2", DEFAULT),
    "log.local.retention.bytes": ("-2", DEFAULT),
}
HOUR = 3_600_000


def test_the_defaults_are_kafkas() -> None:
    settings = effective_roll_settings({}, BROKER_DEFAULTS)
    assert settings.segment_bytes == 1 << 30
    assert settings.segment_ms == 604_800_000
    assert settings.segment_jitter_ms == 0
    assert settings.segment_index_bytes == 10 << 20
    assert settings.index_interval_bytes == 4096
    assert settings.max_message_bytes == 1_048_588
    assert settings.retention_ms == 604_800_000
    assert settings.retention_bytes == -1
    assert settings.cleanup_policy == ("delete",)
    assert settings.file_delete_delay_ms == 60_000
    assert settings.retention_check_interval_ms == 300_000
    assert settings.replica_fetch_max_bytes == 1 << 20
    assert settings.sources["segment.ms"] == ValueSource("DEFAULT_CONFIG", "log.roll.hours")


def test_the_keys_to_ask_a_broker_for_are_those_of_the_defaults() -> None:
    assert set(BROKER_KEYS) == set(BROKER_DEFAULTS)


@pytest.mark.parametrize(
    ("topic", "broker", "field", "value", "source"),
    [
        ({"segment.ms": "1000"}, {"log.roll.ms": ("5", DYNAMIC)}, "segment_ms", 1000, "DYNAMIC_TOPIC_CONFIG"),
        ({}, {"log.roll.hours": ("24", STATIC)}, "segment_ms", 24 * HOUR, "log.roll.hours"),
        (
            {},
            {"log.roll.ms": ("7", STATIC), "log.roll.hours": ("24", STATIC)},
            "segment_ms",
            7,
            "log.roll.ms",
        ),
        # a dynamic ms hides what the file says in hours
        (
            {},
            {"log.roll.ms": ("9", DYNAMIC_DEFAULT), "log.roll.hours": ("24", STATIC)},
            "segment_ms",
            9,
            "log.roll.ms",
        ),
        ({}, {"log.roll.jitter.hours": ("2", STATIC)}, "segment_jitter_ms", 2 * HOUR, "log.roll.jitter.hours"),
        ({}, {"log.roll.jitter.ms": ("3", DYNAMIC)}, "segment_jitter_ms", 3, "log.roll.jitter.ms"),
        (
            {"segment.jitter.ms": "4"},
            {"log.roll.jitter.ms": ("3", DYNAMIC)},
            "segment_jitter_ms",
            4,
            "DYNAMIC_TOPIC_CONFIG",
        ),
        ({}, {"log.retention.minutes": ("90", STATIC)}, "retention_ms", 5_400_000, "log.retention.minutes"),
        (
            {},
            {"log.retention.ms": ("1", STATIC), "log.retention.minutes": ("90", STATIC)},
            "retention_ms",
            1,
            "log.retention.ms",
        ),
        ({}, {"log.retention.hours": ("-1", STATIC)}, "retention_ms", -1, "log.retention.hours"),
        ({"retention.ms": "-1"}, {}, "retention_ms", -1, "DYNAMIC_TOPIC_CONFIG"),
        ({"retention.ms": "-7"}, {}, "retention_ms", -1, "DYNAMIC_TOPIC_CONFIG"),
        ({"segment.bytes": "1048576"}, {}, "segment_bytes", 1_048_576, "DYNAMIC_TOPIC_CONFIG"),
        ({}, {"log.segment.bytes": ("500", DYNAMIC)}, "segment_bytes", 500, "log.segment.bytes"),
        ({"segment.index.bytes": " 24 "}, {}, "segment_index_bytes", 24, "DYNAMIC_TOPIC_CONFIG"),
        ({"index.interval.bytes": "0"}, {}, "index_interval_bytes", 0, "DYNAMIC_TOPIC_CONFIG"),
        ({"max.message.bytes": "10"}, {}, "max_message_bytes", 10, "DYNAMIC_TOPIC_CONFIG"),
        ({"retention.bytes": "5"}, {}, "retention_bytes", 5, "DYNAMIC_TOPIC_CONFIG"),
        ({"cleanup.policy": "compact, delete"}, {}, "cleanup_policy", ("compact", "delete"), "DYNAMIC_TOPIC_CONFIG"),
        ({}, {"log.cleanup.policy": ("compact", STATIC)}, "cleanup_policy", ("compact",), "log.cleanup.policy"),
    ],
)
def test_the_value_that_wins(topic: Any, broker: Any, field: str, value: Any, source: str) -> None:
    settings = effective_roll_settings(topic, BROKER_DEFAULTS | broker)
    assert getattr(settings, field) == value
    key = field.replace("_", ".")
    assert settings.sources[key] == (
        ValueSource(broker[source][1], source) if source in broker else ValueSource(source)
    )


def test_settings_from_different_sources_with_the_same_values_are_equal() -> None:
    by_topic = effective_roll_settings({"segment.ms": "3600000"}, BROKER_DEFAULTS)
    by_broker = effective_roll_settings({}, BROKER_DEFAULTS | {"log.roll.hours": ("1", STATIC)})
    assert by_topic == by_broker
    assert by_topic.sources != by_broker.sources


@pytest.mark.parametrize("value", ["", "1.5", "1_000", "ten", "0x10", "٣"])
def test_a_value_that_brokers_cannot_load_is_refused_with_kafkas_message(value: str) -> None:
    with pytest.raises(KafkaRuleError) as refused:
        effective_roll_settings({"segment.bytes": value}, BROKER_DEFAULTS)
    expected = f"Invalid value {value} for configuration segment.bytes: Not a number of type LONG"
    assert refused.value.kafka_message == expected


@pytest.mark.parametrize(
    "missing", ["log.segment.bytes", "log.roll.hours", "log.cleanup.policy", "replica.fetch.max.bytes"]
)
def test_what_the_broker_did_not_report_is_not_guessed(missing: str) -> None:
    reported = {key: value for key, value in BROKER_DEFAULTS.items() if key != missing}
    with pytest.raises(ReadError, match=f"did not report .*{missing}"):
        effective_roll_settings({}, reported)


def test_what_is_the_brokers_own_is_not_taken_from_a_topic_and_is_no_difference_between_topics() -> None:
    overrides = {"replica.fetch.max.bytes": "5", "log.retention.check.interval.ms": "5"}
    assert effective_roll_settings(overrides, BROKER_DEFAULTS).replica_fetch_max_bytes == 1 << 20
    other = BROKER_DEFAULTS | {"replica.fetch.max.bytes": ("2000000", STATIC)}
    settings = effective_roll_settings({}, other)
    assert (settings.replica_fetch_max_bytes, settings) == (2_000_000, effective_roll_settings({}, BROKER_DEFAULTS))


def test_a_compacted_topic_rolls_within_its_lag_where_brokers_know_it() -> None:
    """KIP-354: LogConfig.maxSegmentMs from 2.3 on; a 2.0 broker ignores the key."""
    overrides = {"cleanup.policy": "compact", "max.compaction.lag.ms": "3600000"}
    assert effective_roll_settings(overrides, BROKER_DEFAULTS).roll_ms == HOUR
    assert effective_roll_settings(overrides | {"cleanup.policy": "delete"}, BROKER_DEFAULTS).roll_ms == 168 * HOUR
    of_2_0 = {key: value for key, value in BROKER_DEFAULTS.items() if key != "log.cleaner.max.compaction.lag.ms"}
    assert effective_roll_settings(overrides, of_2_0).roll_ms == 168 * HOUR


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (ValueSource("DYNAMIC_TOPIC_CONFIG"), "topic"),
        (ValueSource(DYNAMIC, "log.roll.ms"), "log.roll.ms (broker dynamic)"),
        (ValueSource(DYNAMIC_DEFAULT, "log.roll.ms"), "log.roll.ms (broker dynamic default)"),
        (ValueSource(STATIC, "log.roll.hours"), "log.roll.hours (broker static)"),
        (ValueSource(DEFAULT, "log.roll.hours"), "log.roll.hours (default)"),
    ],
)
def test_a_source_is_called_by_its_level(source: Any, words: str) -> None:
    assert str(source) == words


def test_each_broker_key_that_a_topic_can_override_names_the_override() -> None:
    assert TOPIC_KEYS["log.roll.hours"] == TOPIC_KEYS["log.roll.ms"] == "segment.ms"
    assert set(BROKER_KEYS) - set(TOPIC_KEYS) == {"log.retention.check.interval.ms", "replica.fetch.max.bytes"}


TIERED = {"remote.storage.enable": "true", "retention.ms": "3600000", "retention.bytes": "9000"}


@pytest.mark.parametrize(
    ("topic", "broker", "found"),
    [
        ({}, {}, (HOUR, 9000)),
        ({"local.retention.ms": "60000"}, {}, (60_000, 9000)),
        ({"local.retention.ms": "-2"}, {"log.local.retention.ms": ("7", DYNAMIC)}, (HOUR, 9000)),
        ({}, {"log.local.retention.ms": ("7", DYNAMIC), "log.local.retention.bytes": ("80", STATIC)}, (7, 80)),
        ({"retention.ms": "-1", "retention.bytes": "-1"}, {}, (-1, -1)),
        ({"retention.ms": "-1", "local.retention.ms": "5"}, {}, (5, 9000)),
        # a broker of a release without tiered storage
        ({}, {"log.local.retention.ms": (None, ""), "log.local.retention.bytes": (None, "")}, (HOUR, 9000)),
        ({"remote.storage.enable": " TRUE "}, {"log.local.retention.ms": ("7", STATIC)}, (7, 9000)),
    ],
)
def test_the_disks_keep_a_tiered_topic_for_its_local_retention(
    topic: dict[str, str], broker: dict[str, Any], found: tuple[int, int]
) -> None:
    settings = effective_roll_settings(TIERED | topic, BROKER_DEFAULTS | broker)
    assert settings.is_tiered
    assert (settings.on_disk_ms, settings.on_disk_bytes) == found
    assert (settings.local_retention_ms, settings.local_retention_bytes) == found


def test_the_disks_keep_other_topics_for_their_retention_whatever_the_local_one_is() -> None:
    local = {"local.retention.ms": "1", "local.retention.bytes": "1"}
    settings = effective_roll_settings({**TIERED, **local, "remote.storage.enable": "false"}, BROKER_DEFAULTS)
    assert (settings.on_disk_ms, settings.on_disk_bytes) == (HOUR, 9000)
    assert (settings.is_tiered, settings.local_retention_ms, settings.local_retention_bytes) == (False, None, None)
    assert "local.retention.ms" not in settings.sources


GIB = 1 << 30
WEEK_MS = 604_800_000
INT_MAX = 2**31 - 1
NOW = 1_700_000_000_000


# --- when a segment is rolled: five conditions, the first that holds ---

# A segment with Kafka's defaults in the middle of its life, and a batch that fits it.
QUIET: dict[str, Any] = {
    "segment_size": 500_000_000,
    "max_segment_bytes": GIB,
    "messages_size": 16_384,
    "first_batch_timestamp": NOW - 1000,
    "max_timestamp_in_messages": NOW,
    "created_ms": NOW - 1000,
    "now_ms": NOW,
    "segment_ms": WEEK_MS,
    "roll_jitter_ms": 0,
    "offset_index_entries": 1000,
    "offset_index_max_entries": 10_485_760 // 8,
    "time_index_entries": 1000,
    "time_index_max_entries": 10_485_760 // 12,
    "base_offset": 1_000_000,
    "max_offset_in_messages": 2_000_000,
}
HELD = {
    RollReason.SIZE: {"segment_size": GIB},
    RollReason.TIME: {"first_batch_timestamp": NOW - WEEK_MS - 1},
    RollReason.OFFSET_INDEX: {"offset_index_entries": 10_485_760 // 8},
    RollReason.TIME_INDEX: {"time_index_entries": 10_485_760 // 12 - 1},
    RollReason.OFFSET: {"max_offset_in_messages": 1_000_000 + INT_MAX + 1},
}


def reason(**changes: Any) -> RollReason | None:
    return should_roll(**(QUIET | changes))


def test_segment_roll_any_condition_suffices() -> None:
    """Seed 002, row 1: four roll conditions, any suffices: size, time, index, offset (five, in fact)."""
    assert reason() is None
    for expected, change in HELD.items():
        assert reason(**change) is expected


def test_the_first_condition_that_holds_is_the_reason() -> None:
    order = list(HELD)
    assert order == list(RollReason)
    for place, first in enumerate(order):
        for second in order[place:]:
            assert reason(**HELD[second] | HELD[first]) is first


@pytest.mark.parametrize(("size", "messages", "expected"), [(GIB - 100, 100, None), (GIB - 100, 101, RollReason.SIZE)])
def test_a_segment_may_become_exactly_full(size: int, messages: int, expected: RollReason | None) -> None:
    assert reason(segment_size=size, messages_size=messages) is expected


def test_an_empty_segment_rolls_by_size_when_the_batch_alone_is_larger() -> None:
    assert reason(segment_size=0, messages_size=GIB + 1) is RollReason.SIZE


@pytest.mark.parametrize(
    ("waited", "jitter", "expected"),
    [(WEEK_MS, 0, None), (WEEK_MS + 1, 0, RollReason.TIME), (WEEK_MS, 1, RollReason.TIME), (WEEK_MS - 1, 1, None)],
)
def test_time_must_be_exceeded_and_jitter_shortens_it(waited: int, jitter: int, expected: RollReason | None) -> None:
    assert reason(first_batch_timestamp=NOW - waited, roll_jitter_ms=jitter) is expected


def test_an_empty_segment_never_rolls_by_time() -> None:
    assert reason(segment_size=0, **HELD[RollReason.TIME]) is None
    assert reason(segment_size=0, first_batch_timestamp=None, created_ms=0) is None


def test_with_timestamps_the_wall_clock_plays_no_role() -> None:
    assert reason(now_ms=NOW + 100 * WEEK_MS, created_ms=0) is None


@pytest.mark.parametrize("older", [NOW - 2000, 0, -1])
def test_an_older_message_and_one_without_timestamp_wait_a_negative_time(older: int) -> None:
    """A batch without timestamp says -1."""
    assert reason(max_timestamp_in_messages=older) is None


@pytest.mark.parametrize("none", [None, -1, -5])
def test_without_a_first_timestamp_the_wall_clock_counts_from_the_segments_creation(none: int | None) -> None:
    late = {"first_batch_timestamp": none, "now_ms": NOW, "max_timestamp_in_messages": NOW + 9 * WEEK_MS}
    assert reason(**late, created_ms=NOW - WEEK_MS) is None
    assert reason(**late, created_ms=NOW - WEEK_MS - 1) is RollReason.TIME


def test_zero_is_a_timestamp() -> None:
    assert reason(first_batch_timestamp=0, max_timestamp_in_messages=WEEK_MS, created_ms=0) is None
    assert reason(first_batch_timestamp=0, max_timestamp_in_messages=WEEK_MS + 1) is RollReason.TIME


def test_the_time_index_keeps_a_slot_and_the_offset_index_does_not() -> None:
    assert reason(offset_index_entries=9, offset_index_max_entries=10) is None
    assert reason(time_index_entries=9, time_index_max_entries=10) is RollReason.TIME_INDEX
    assert reason(time_index_entries=8, time_index_max_entries=10) is None
    # segment.index.bytes from 12 to 23 holds one entry: always full.
    assert reason(time_index_entries=0, time_index_max_entries=1) is RollReason.TIME_INDEX


@pytest.mark.parametrize(
    ("delta", "expected"), [(INT_MAX, None), (INT_MAX + 1, RollReason.OFFSET), (-1, RollReason.OFFSET), (0, None)]
)
def test_offsets_must_fit_the_index(delta: int, expected: RollReason | None) -> None:
    assert reason(max_offset_in_messages=QUIET["base_offset"] + delta) is expected


@given(st.dictionaries(st.sampled_from(sorted(QUIET)), st.integers(0, 2**40)))
def test_a_larger_batch_never_keeps_a_segment_that_a_smaller_one_rolls(changes: dict[str, int]) -> None:
    smaller = QUIET | changes
    larger = smaller | {"messages_size": smaller["messages_size"] + 1}
    assert should_roll(**smaller) is None or should_roll(**larger) is not None
