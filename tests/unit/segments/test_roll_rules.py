"""The audit's rules for segment settings: each right one at its limit, and none of the wrong ones."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.documents.segments import first_findings
from kafka_rebalance.segments.audit import audit_cluster
from kafka_rebalance.segments.roll_rules import RULES, TopicData, effective_retention_ms, span
from support.documents.segment_configs import DAY, DYNAMIC, DYNAMIC_DEFAULT, MIB, STATIC, configs, placed, reported

FOREVER = 2**63 - 1


def broken(overrides: Any = None, broker: Any = None, size_bytes: Any = 1000, append_bytes: Any = 0) -> dict[str, str]:
    """{rule: text} of one topic on one broker."""
    settings = configs({"t": overrides or {}}, {1: broker or reported()}).roll_settings("t", 1)
    data = TopicData(size_bytes, append_bytes)
    return {rule.name: text for rule in RULES if (text := rule.problem(settings, data)) is not None}


def test_segments_the_defaults_break_no_rule() -> None:
    assert broken() == {}


def test_segments_of_an_ordinary_compacted_topic_break_no_rule() -> None:
    """As __consumer_offsets is made: 100 MiB segments, rolled within Kafka's week."""
    assert broken({"cleanup.policy": "compact", "segment.bytes": 104_857_600, "compression.type": "producer"}) == {}


@pytest.mark.parametrize(
    ("index_bytes", "rule"),
    [(0, "no_time_index"), (11, "no_time_index"), (12, "index_full_at_once"), (23, "index_full_at_once"), (24, None)],
)
def test_segments_index_below_24_is_an_error(index_bytes: int, rule: str | None) -> None:
    """facts f: segment.index.bytes < 24: < 12 cannot create the time index, 12-23 rolls on every append."""
    found = broken({"segment.index.bytes": index_bytes, "segment.bytes": 4000, "max.message.bytes": 1})
    assert [name for name in found if "index" in name] == ([rule] if rule else [])
    assert {r.name: r.severity for r in RULES}[rule or "no_time_index"] == "error"


@pytest.mark.parametrize(
    ("overrides", "append_bytes", "is_broken"),
    [
        ({"segment.index.bytes": 12 * (262_144 + 1)}, 0, False),
        ({"segment.index.bytes": 12 * (262_144 + 1) - 1}, 0, True),
        # an incomplete last interval still has an entry
        ({"segment.bytes": 4096 * 100 + 1, "segment.index.bytes": 12 * 102 - 1, "max.message.bytes": 9}, 0, True),
        ({"segment.bytes": 4096 * 100 + 1, "segment.index.bytes": 12 * 102, "max.message.bytes": 9}, 0, False),
        # an entry for each append at most, so larger appends need fewer
        ({"index.interval.bytes": 0}, 0, True),
        ({"index.interval.bytes": 0}, 1000, True),
        ({"index.interval.bytes": 0}, 10_000, False),
        ({"index.interval.bytes": 50_000, "segment.index.bytes": 300_000}, 10, False),
    ],
)
def test_segments_index_full_before_the_segment_is_warned_about(
    overrides: Any, append_bytes: int, is_broken: bool
) -> None:
    """facts f: segment.index.bytes < 12 (ceil(segment.bytes / max(index.interval.bytes, typical append)) + 1)."""
    assert ("index_full_first" in broken(overrides, append_bytes=append_bytes)) == is_broken


@pytest.mark.parametrize(("jitter_ms", "is_broken"), [(DAY - 1, False), (DAY, True), (2 * DAY, True)])
def test_segments_jitter_that_reaches_the_roll_time_is_an_error(jitter_ms: Any, is_broken: bool) -> None:
    """facts f: segment.jitter.ms >= segment.ms: the effective roll may be about 0 to 1 ms."""
    found = broken({"segment.ms": DAY, "segment.jitter.ms": jitter_ms})
    assert list(found) == (["jitter_reaches_roll"] if is_broken else [])


@pytest.mark.parametrize(("segment_bytes", "is_broken"), [(1_048_588, False), (1_048_587, True)])
def test_segments_below_the_largest_message_refuse_batches(segment_bytes: int, is_broken: bool) -> None:
    """facts f: segment.bytes < max.message.bytes: large batches are refused although allowed."""
    assert ("batches_refused" in broken({"segment.bytes": segment_bytes})) == is_broken


@pytest.mark.parametrize(("segment_bytes", "is_broken"), [(MIB, False), (MIB - 1, True)])
def test_segments_below_the_fetch_size_stop_copies(segment_bytes: Any, is_broken: bool) -> None:
    """facts f: segment.bytes < replica.fetch.max.bytes: a new replica's fetcher stops."""
    found = broken({"segment.bytes": segment_bytes, "max.message.bytes": 1000})
    assert list(found) == (["chunks_refused"] if is_broken else [])


def test_segments_the_fetch_size_is_the_receiving_brokers() -> None:
    assert "chunks_refused" in broken({"segment.bytes": 2 * MIB}, reported(replica_fetch_max_bytes=2 * MIB + 1))


@pytest.mark.parametrize(
    ("overrides", "is_broken"),
    [
        ({"retention.ms": 7 * DAY}, False),
        ({"retention.ms": 7 * DAY - 1}, True),
        ({"retention.ms": DAY, "cleanup.policy": "compact,delete"}, True),
        ({"retention.ms": DAY, "cleanup.policy": "compact"}, False),
        ({"retention.ms": -1}, False),
    ],
)
def test_segments_retention_shorter_than_the_roll_is_warned_about(overrides: Any, is_broken: bool) -> None:
    """facts f: roll time > retention.ms: the oldest record lives up to retention and the segment's span."""
    assert ("roll_after_retention" in broken(overrides)) == is_broken


def test_segments_a_tiered_topic_keeps_its_local_retention_on_disk() -> None:
    tiered = {"remote.storage.enable": "true", "retention.bytes": 10 << 30, "local.retention.bytes": 1000}
    assert broken(tiered)["retention_below_a_segment"] == (
        "local.retention.bytes is 1000, segment.bytes 1073741824: a partition keeps up to 1073742824 bytes on disk, "
        "and Kafka does not trim a single segment"
    )
    assert "retention_below_a_segment" not in broken({**tiered, "remote.storage.enable": "false"})


def test_segments_the_effective_retention_is_retention_roll_check_and_delay() -> None:
    """facts f: deletion works per segment by its newest record, each check interval, after the delete delay."""
    settings = configs({"t": {"retention.ms": DAY}}).roll_settings("t", 1)
    assert effective_retention_ms(settings) == DAY + 7 * DAY + 300_000 + 60_000
    assert broken({"retention.ms": DAY})["roll_after_retention"] == (
        "retention.ms is 1 d, but a segment may span 7 d: a record can stay for 8 d 6 min"
    )


@pytest.mark.parametrize(
    ("overrides", "is_broken"),
    [
        ({"retention.bytes": (1 << 30) - 1}, True),
        ({"retention.bytes": 0}, True),
        ({"retention.bytes": 1 << 30}, False),
        ({"retention.bytes": -1}, False),
        ({"retention.bytes": 5, "cleanup.policy": "compact"}, False),
    ],
)
def test_segments_retention_bytes_below_a_segment_is_warned_about(overrides: Any, is_broken: bool) -> None:
    """facts f: retention.bytes < segment.bytes: keeps up to retention.bytes and one segment."""
    found = broken(overrides)
    assert list(found) == (["retention_below_a_segment"] if is_broken else [])
    if is_broken:
        assert f"keeps up to {(1 << 30) + overrides['retention.bytes']} bytes" in found["retention_below_a_segment"]


COMPACTED = {"cleanup.policy": "compact", "segment.ms": 30 * DAY}


@pytest.mark.parametrize(
    ("overrides", "size_bytes", "is_broken"),
    [
        (COMPACTED, 1000, True),
        (COMPACTED, 1 << 30, False),  # rolls by size
        (COMPACTED, 0, False),  # nothing to compact
        (COMPACTED | {"segment.ms": 7 * DAY}, 1000, False),
        (COMPACTED | {"segment.ms": FOREVER, "max.compaction.lag.ms": DAY}, 1000, False),
        (COMPACTED | {"cleanup.policy": "compact,delete"}, 1000, False),  # retention takes it
        (COMPACTED | {"cleanup.policy": "delete"}, 1000, False),
    ],
)
def test_segments_a_compacted_topic_that_does_not_roll_is_warned_about(
    overrides: Any, size_bytes: Any, is_broken: bool
) -> None:
    """facts f: low traffic: right for compact, whose active segment is never compacted and rolls with an append."""
    assert ("never_compacted" in broken(overrides, size_bytes=size_bytes)) == is_broken


def test_a_low_traffic_delete_topic_is_not_warned_about() -> None:
    """facts f: wrong rule. An expired active segment is rolled and deleted; idle topics empty out."""
    assert broken({"segment.ms": 6 * DAY, "retention.ms": 7 * DAY}, size_bytes=1) == {}
    assert broken({"segment.ms": 30 * DAY, "retention.ms": -1}, size_bytes=1) == {}


def findings(topics: Any, brokers: Any = None, partitions: Any = None, **others: Any) -> Any:
    audit = audit_cluster(
        partitions or [placed(f"{topic}-0", (1, 2)) for topic in topics], configs(topics, brokers, **others)
    )
    return audit.findings


def test_an_audit_of_a_sound_cluster_finds_nothing_and_says_what_it_looked_at() -> None:
    partitions = [placed("a-0", (1, 2)), placed("a-1", (2, 3)), placed("b-0", (3, 1))]
    audit = audit_cluster(partitions, configs({"a": {}, "b": {}}))
    assert (audit.topics, audit.brokers, audit.errors, audit.warnings, audit.findings) == (2, 4, 0, 0, ())


def test_segment_lists_of_replicas_are_not_compared() -> None:
    """facts f: wrong rule: base offsets depend on chunk sizes, start offset and per-replica jitter."""
    assert findings({"t": {"segment.jitter.ms": DAY}}, partitions=[placed("t-0", (1, 2, 3), 5 << 30)]) == ()


@pytest.mark.parametrize(
    ("overrides", "broker", "source"),
    [
        ({"segment.ms": 5}, {}, "segment.jitter.ms: log.roll.jitter.ms (broker static); segment.ms: topic"),
        ({}, {"source": DYNAMIC, "log_roll_ms": 5}, "segment.ms: log.roll.ms (broker dynamic)"),
        ({}, {"source": DYNAMIC_DEFAULT, "log_roll_ms": 5}, "segment.ms: log.roll.ms (broker dynamic default)"),
        ({}, {"source": STATIC, "log_roll_hours": 1}, "segment.ms: log.roll.hours (broker static)"),
        ({}, {}, "segment.ms: log.roll.hours (default)"),
    ],
)
def test_a_finding_names_where_each_value_comes_from(overrides: Any, broker: Any, source: str) -> None:
    values = reported(**broker) | {"log.roll.jitter.ms": (str(8 * DAY), STATIC)}
    (finding,) = findings({"t": overrides}, dict.fromkeys((1, 2, 3, 4), values))
    assert (finding.rule, finding.severity, finding.topics, finding.brokers) == (
        "jitter_reaches_roll",
        "error",
        ("t",),
        (1, 2),
    )
    assert source in finding.source
    assert finding.remedy


def test_a_fetch_size_is_named_by_its_level_alone() -> None:
    (finding,) = findings({"t": {"segment.bytes": 100_000, "max.message.bytes": 9}})
    assert finding.severity == "warning", "nothing is copied yet"
    assert finding.source == "segment.bytes: topic; replica.fetch.max.bytes: default"


def test_topics_and_brokers_with_the_same_fault_are_told_once_and_errors_come_first() -> None:
    topics = {f"t{number:02}": {"segment.index.bytes": 20} for number in range(30)} | {"w": {"retention.bytes": 5}}
    error, warning = findings(topics)
    assert (error.rule, len(error.topics), error.brokers) == ("index_full_at_once", 30, (1, 2))
    assert (warning.rule, warning.severity) == ("retention_below_a_segment", "warning")
    (document,) = first_findings([error], 1)
    assert (len(document.topics), document.topic_count) == (20, 30)
    assert str(error).startswith("topic t00, t01, t02 and 27 more, broker 1, 2: segment.index.bytes is 20")


def test_only_brokers_that_hold_the_topic_are_judged() -> None:
    assert findings({"t": {}}, {4: reported(log_roll_jitter_ms=8 * DAY)})[0].rule == "brokers_differ"
    assert [f.rule for f in findings({"t": {"segment.jitter.ms": 0}}, {4: reported(log_roll_jitter_ms=8 * DAY)})] == []


def test_brokers_with_other_static_settings_are_named_with_values_and_levels() -> None:
    """facts f: the effective roll setting of a partition can change merely because it moved."""
    topics = {"a": {}, "b": {"segment.ms": DAY}, "c": {}}
    (finding,) = findings(topics, {3: reported(log_roll_hours=1), 4: reported(DYNAMIC, log_roll_ms=7 * DAY)})
    assert (finding.rule, finding.severity, finding.topics) == ("brokers_differ", "warning", ("a", "c"))
    assert finding.text == "segment.ms is 604800000 on broker 1, 2, 4; 3600000 on broker 3"
    assert finding.source == (
        "log.roll.hours (default) on broker 1, 2; log.roll.hours (broker static) on broker 3; "
        "log.roll.ms (broker dynamic) on broker 4"
    )


def test_brokers_that_differ_in_what_every_topic_sets_are_no_finding() -> None:
    assert findings({"t": {"segment.ms": DAY}}, {3: reported(log_roll_hours=1)}) == ()


@pytest.mark.parametrize("brokers", [{2: {}}, {2: {"log.segment.bytes": ("9", STATIC)}}])
def test_a_broker_that_does_not_tell_is_an_error_not_a_pass(brokers: Any) -> None:
    (finding,) = findings({"t": {}}, brokers)
    assert (finding.rule, finding.severity, finding.brokers) == ("settings_unknown", "error", (2,))
    assert "did not report" in finding.text


def test_a_broker_that_is_down_is_named() -> None:
    (finding,) = findings({"t": {}}, partitions=[placed("t-0", (1, 9))])
    assert (finding.rule, finding.severity, finding.brokers) == ("settings_unknown", "warning", (9,))


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 ms"),
        (1, "1 ms"),
        (1001, "1 s 1 ms"),
        (5_400_000, "1 h 30 min"),
        (604_800_000, "7 d"),
        (8 * DAY + 360_000, "8 d 6 min"),
        (FOREVER, "more than 1000 years"),
    ],
)
def test_spans_are_told_in_two_units(ms: Any, words: str) -> None:
    assert span(ms) == words
