"""The audit of segment settings: what stops moves, what is stored wrong, and what differs from the approval."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.documents.segments import OpenFiles
from kafka_rebalance.segments.audit import (
    audit_cluster,
    audit_moves,
    broker_config_problem,
    check_segments,
    copies_stopped,
    topic_config_problem,
)
from kafka_rebalance.segments.open_files import MAX_MAP_COUNT, files_now, replica_files
from support.documents.segment_configs import DAY, MIB, STATIC, configs, placed, reported
from support.kafka.small_clusters import move

COPY = [move("t-0", [1, 2], [2, 3]), move("t-1", [1, 2], [1, 2, 4]), move("u-0", [1, 2], [2, 1])]


def stops(topics: Any, brokers: Any = None, moves: Any = COPY) -> Any:
    return copies_stopped(moves, configs(topics, brokers))


def test_moves_of_sound_topics_are_not_stopped() -> None:
    assert stops({"t": {}, "u": {}}) == ()


def test_moves_to_a_broker_that_fetches_more_than_a_segment_takes_are_stopped() -> None:
    """facts f, live: segment.bytes below replica.fetch.max.bytes of ANY broker that would receive a replica."""
    (finding,) = stops({"t": {"segment.bytes": 2 * MIB}}, {4: reported(replica_fetch_max_bytes=3 * MIB)})
    assert (finding.rule, finding.severity, finding.topics, finding.brokers) == (
        "chunks_refused",
        "error",
        ("t",),
        (4,),
    )
    assert "segment.bytes is 2097152, replica.fetch.max.bytes 3145728" in finding.text
    assert finding.source == "segment.bytes: topic; replica.fetch.max.bytes: broker static"
    assert "Raise segment.bytes to at least replica.fetch.max.bytes" in finding.remedy


def test_moves_of_a_topic_with_small_segments_are_stopped_on_every_broker_that_gets_a_copy() -> None:
    (finding,) = stops({"t": {"segment.bytes": 100_000}})
    assert finding.brokers == (3, 4)


def test_moves_that_copy_nothing_are_not_stopped() -> None:
    assert stops({"u": {"segment.bytes": 100_000}}) == ()
    assert stops({"t": {"segment.bytes": 100_000}}, moves=[move("t-0", [1, 2, 3], [2, 1])]) == ()


@pytest.mark.parametrize(
    ("overrides", "rule"),
    [
        ({"segment.index.bytes": 11}, "no_time_index"),
        ({"segment.bytes": 3_000_000_000}, "unloadable"),
        ({"retention.ms": "soon"}, "unloadable"),
    ],
)
def test_moves_of_what_a_new_broker_cannot_load_are_stopped(overrides: Any, rule: str) -> None:
    """Seen live: the broker refuses the replica, and the reassignment stays for good."""
    assert [(found.rule, found.topics) for found in stops({"t": overrides})] == [(rule, ("t",))]


def test_moves_are_not_stopped_by_what_only_makes_a_topic_worse() -> None:
    worse = {"segment.index.bytes": 20, "segment.ms": 5, "segment.jitter.ms": 9, "no.such.key": 1, "retention.bytes": 1}
    assert stops({"t": worse}) == ()


def test_moves_to_a_broker_that_is_down_are_stopped() -> None:
    (finding,) = stops({"t": {}}, moves=[move("t-0", [1], [1, 9])])
    assert (finding.rule, finding.severity, finding.brokers) == ("settings_unknown", "error", (9,))


@pytest.mark.parametrize("brokers", [{3: {}}, {3: reported() | {"replica.fetch.max.bytes": (None, "")}}])
def test_moves_to_a_broker_whose_settings_are_not_known_are_stopped(brokers: Any) -> None:
    (finding,) = stops({"t": {}}, brokers)
    assert (finding.rule, finding.brokers) == ("settings_unknown", (3,))


def test_a_partition_that_rolls_otherwise_where_it_goes_is_told_before() -> None:
    audit = audit_moves(COPY, {}, configs({"t": {}}, {3: reported(log_roll_hours=1)}), 100)
    (finding,) = audit.findings
    assert (finding.rule, finding.severity, finding.topics, finding.brokers) == (
        "rolls_otherwise",
        "warning",
        ("t",),
        (3,),
    )
    assert finding.text == "segment.ms 604800000 -> 3600000"
    assert finding.source == "segment.ms: log.roll.hours (broker static)"


def test_a_partition_that_rolls_as_on_one_of_its_old_brokers_is_no_finding() -> None:
    audit = audit_moves(
        COPY, {}, configs({"t": {}}, {2: reported(log_roll_hours=1), 3: reported(log_roll_hours=1)}), 100
    )
    assert [finding.brokers for finding in audit.findings] == []


def test_a_copy_starts_no_roll_storm_and_no_new_retention_clock() -> None:
    """facts f: wrong rules for timestamped messages: rolling and retention follow the records, not the copy."""
    audit = audit_moves(COPY, {}, configs({"t": {"segment.ms": 1000, "retention.ms": 1000}}), 100)
    assert (audit.stops, audit.findings) == ((), ())


@pytest.mark.parametrize(
    ("size_bytes", "overrides", "segments"),
    [
        (0, {}, 1),
        (1000, {}, 2),  # one that retention keeps, and the active one
        (10 << 30, {}, 11),
        ((10 << 30) + 1, {}, 12),
        (1 << 30, {"segment.ms": DAY}, 8),
        (1 << 30, {"segment.ms": DAY, "retention.ms": -1}, 2),
        (1 << 30, {"segment.ms": DAY, "cleanup.policy": "compact"}, 2),
        (610, {"segment.ms": 1}, 11),  # no more than one a batch
    ],
)
def test_segments_of_a_replica_are_by_size_or_by_time_and_one_more(
    size_bytes: Any, overrides: Any, segments: int
) -> None:
    """facts f: segments = max(retained bytes / segment.bytes, retention.ms / segment.ms) + 1 per replica."""
    files = replica_files(size_bytes, configs({"t": overrides}).roll_settings("t", 1))
    assert (files.segments, files.memory_maps) == (segments, 2 * segments)


def test_segments_by_time_are_no_more_than_the_appends() -> None:
    settings = configs({"t": {"segment.ms": 1}}).roll_settings("t", 1)
    assert replica_files(100_000, settings, append_bytes=10_000).segments == 11


def test_segments_of_a_tiered_topic_are_those_that_its_brokers_keep() -> None:
    a_month = {"segment.ms": DAY, "retention.ms": 30 * DAY}
    tiered = {**a_month, "remote.storage.enable": "true", "local.retention.ms": 2 * DAY}
    known = configs({"t": tiered, "u": a_month})
    assert replica_files(1 << 30, known.roll_settings("t", 1)).segments == 3
    assert replica_files(1 << 30, known.roll_settings("u", 1)).segments == 31


def test_a_replica_preallocates_two_index_files() -> None:
    """facts f: two sparse 10 MiB index files of each active segment: 20 MiB a new replica."""
    assert replica_files(0, configs({"t": {}}).roll_settings("t", 1)).index_bytes == 10_485_760 + 10_485_756
    small = configs({"t": {"segment.index.bytes": 100}}).roll_settings("t", 1)
    assert replica_files(0, small).index_bytes == 96 + 96


def test_open_files_count_a_moving_partition_on_both_brokers() -> None:
    """facts f: per target broker before and after, with moving partitions counted on both."""
    partitions = [placed("t-0", (1, 2), 10 << 30), placed("t-1", (1, 2), 0), placed("u-0", (1, 2), 0)]
    moves = [move("t-0", [1, 2], [2, 3], size=10 << 30), move("t-1", [1, 2], [1, 2, 4], size=0)]
    known = configs({"t": {}, "u": {}})
    audit = audit_moves(moves, files_now(partitions, known), known, 100)
    counted = {f.broker: (f.before.segments, f.during.segments, f.after.segments) for f in audit.files}
    assert counted == {1: (13, 13, 2), 2: (13, 13, 13), 3: (0, 11, 11), 4: (0, 1, 1)}
    assert audit.files[2].during.index_bytes == 20_971_516
    assert audit.files[0].after == OpenFiles(2, 4, 41_943_032)


def maps(segments: int) -> OpenFiles:
    return OpenFiles(segments, 2 * segments, 0)


def test_more_maps_than_linux_gives_are_warned_about_while_they_last() -> None:
    """facts f: maps = 2 x segments against vm.max_map_count (about 65530)."""
    known = configs({"t": {}})
    now = {1: maps(40_000), 3: maps(MAX_MAP_COUNT // 2 - 11), 2: maps(5)}
    fits = [move("t-0", [2], [3], size=10 << 30)]
    assert [f.brokers for f in audit_moves(fits, now, known, 100).findings] == [(1,)]
    (first, second) = audit_moves([*fits, move("t-1", [2], [3], size=0)], now, known, 100).findings
    assert (second.rule, second.brokers) == ("too_many_maps", (3,))
    assert f"{MAX_MAP_COUNT - 22} memory maps now, {MAX_MAP_COUNT + 2} while it receives copies" in second.text
    assert "vm.max_map_count" in first.remedy


def test_maps_of_a_cluster_as_it_is_are_told_once() -> None:
    partitions = [placed("t-0", (1,), 1 << 40)]
    (finding,) = audit_cluster(partitions, configs({"t": {"segment.bytes": 16 * MIB}})).findings
    assert finding.text == "about 131074 memory maps; Linux gives a process 65530"


@pytest.mark.parametrize(
    ("key", "value", "rule", "words"),
    [
        ("segment.bytes", "3000000000", "unloadable", "Not a number of type INT"),
        ("segment.bytes", "13", "unloadable", "Value must be at least 14"),
        ("retention.ms", "soon", "unloadable", "Not a number of type LONG"),
        ("cleanup.policy", "Delete", "unloadable", "String must be one of: compact, delete"),
        ("log.segment.bytes", "1048576", "ignored", "a topic's is segment.bytes"),
        ("log.retention.hours", "1", "ignored", "a topic's is retention.ms"),
        ("no.such.key", "1", "ignored", "no topic config of Kafka 2.0"),
        ("max.compaction.lag.ms", "1", "ignored", "no topic config of Kafka 2.0"),  # since 2.3
    ],
)
def test_a_stored_topic_value_that_brokers_do_not_take_is_found(key: str, value: str, rule: str, words: str) -> None:
    """facts f: hand-written znodes: audit raw znodes too."""
    found = topic_config_problem(key, value, "2.0")
    assert found is not None
    assert found[0] == rule
    assert words in found[1]


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("log.segment.bytes", "3000000000", "unloadable"),
        ("log.index.size.max.bytes", "3", "unloadable"),
        ("log.retention.ms", "0", "unloadable"),
        ("leader.replication.throttled.rate", "fast", "unloadable"),
        ("segment.bytes", "1048576", "ignored"),
        ("log.roll.hours", "5", "ignored"),
        ("replica.fetch.max.bytes", "5", "ignored"),
        ("log.roll.ms", "5", None),
        ("log.retention.ms", "-1", None),
        ("follower.replication.throttled.rate", "5", None),
        ("ssl.keystore.password", "hunter2", None),
        ("num.io.threads", "x", None),
    ],
)
def test_a_stored_broker_value_is_judged_where_it_decides_rolling_or_throttles(
    key: str, value: str, rule: str | None
) -> None:
    found = broker_config_problem(key, value, "2.8")
    assert (found and found[0]) == rule


def test_stored_values_are_findings_of_the_topics_and_znodes_that_hold_them() -> None:
    topics = {"a": {"segment.bytes": "3000000000"}, "b": {"segment.bytes": "3000000000"}, "c": {"nonsense": "1"}}
    dynamic = {-1: {"log.roll.hours": "1"}, 2: {"log.segment.bytes": "x"}}
    partitions = [placed(f"{topic}-0", (1, 2)) for topic in topics]
    found = audit_cluster(partitions, configs(topics, broker_dynamic=dynamic)).findings
    assert [(f.rule, f.severity, f.topics, f.brokers, f.source) for f in found] == [
        ("unloadable", "error", ("a", "b"), (), "/config/topics"),
        ("unloadable", "error", (), (2,), "/config/brokers/2"),
        ("ignored", "warning", ("c",), (), "/config/topics"),
        ("ignored", "warning", (), (), "/config/brokers/<default>"),
    ]


def test_a_value_written_by_hand_is_told_on_one_short_line() -> None:
    problem = topic_config_problem("retention.ms", "a\nb\x1b[31m" + "x" * 500, "2.0")
    assert problem is not None
    assert problem[1].startswith("Invalid value a b [31mxxx")
    assert len(problem[1]) == 160


LISTS, RATE = "follower.replication.throttled.replicas", "leader.replication.throttled.rate"


def test_throttles_that_are_left_are_found_on_topics_and_brokers() -> None:
    """facts f: throttled.replicas keys left after completion silently slow later catch-up."""
    topics = {"a": {LISTS: "0:1,0:2"}, "b": {LISTS: "*"}, "c": {LISTS: ""}, "d": {}}
    dynamic = {-1: {RATE: "5"}, 1: {RATE: "7"}, 2: {RATE: "7"}, 3: {}}
    partitions = [placed("a-0", (1, 2))]
    found = audit_cluster(partitions, configs(topics, broker_dynamic=dynamic)).findings
    assert {(f.rule, f.severity) for f in found} == {("throttle_left", "warning")}
    assert {(f.topics, f.brokers, f.text) for f in found} == {
        (("a", "b"), (), f"{LISTS} is set"),
        ((), (), f"{RATE} is 5"),
        ((), (1, 2), f"{RATE} is 7"),
    }
    assert all("Remove it with kafka-configs" in f.remedy for f in found)


def test_throttles_of_a_run_that_holds_the_cluster_name_it() -> None:
    (finding,) = audit_cluster([], configs({"a": {LISTS: "0:1"}}, lock_holder="kafka_rebalance/one")).findings
    assert "The run kafka_rebalance/one holds the cluster" in finding.remedy


def test_the_newest_release_that_a_broker_speaks_decides_what_is_known() -> None:
    old = reported() | {"inter.broker.protocol.version": ("2.0-IV1", "DEFAULT_CONFIG")}
    assert configs({}, dict.fromkeys((1, 2, 3, 4), old)).version == "2.0"
    assert configs({}, {1: old}).version == "3.9"
    assert configs({}, {broker: {} for broker in (1, 2, 3, 4)}).version == "3.9"


# --- what the verification says of moved topics ---

MOVES = [move("t-0", [1, 2], [2, 3]), move("t-1", [2, 1], [1, 2]), move("u-0", [1, 2], [2, 1])]
SAME = configs({"t": {}, "u": {}})
SHOWN = "as shown before the approval: "


def checks_of(before: Any = SAME, now: Any = SAME, moves: Any = MOVES) -> Any:
    checks = check_segments(moves, before, now)
    return {(check.name.removeprefix("segment_settings_"), check.subject): check for check in checks}


def failed(checks: Any) -> Any:
    return [key for key, check in checks.items() if not check.passed]


def test_settings_that_are_the_same_everywhere_pass() -> None:
    checks = checks_of()
    assert set(checks) == {
        ("sound", "t"),
        ("unchanged", "t"),
        ("same_on_new_broker", "t"),
        ("sound", "u"),
        ("unchanged", "u"),
    }
    assert all(check.passed and not check.warns for check in checks.values())
    assert checks["sound", "t"].finding == "all 9 rules hold on broker 1, 2, 3"


def test_a_setting_that_changed_during_the_run_fails() -> None:
    checks = checks_of(now=configs({"t": {}, "u": {}}, {2: reported(log_roll_hours=24)}))
    assert failed(checks) == [("unchanged", "t"), ("unchanged", "u")]
    assert checks["unchanged", "u"].finding == (
        f"segment.ms {7 * DAY} -> {DAY} on broker 2 (segment.ms: log.roll.hours (broker static))"
    )


WRONG = {
    "every append rolls": {"segment.index.bytes": 20},
    "reaches segment.ms": {"segment.jitter.ms": 8 * DAY},
    "replica.fetch.max.bytes 1048576": {"segment.bytes": 100_000, "max.message.bytes": 9},
    "Not a number of type INT": {"segment.bytes": 3_000_000_000},
}


@pytest.mark.parametrize("words", WRONG)
def test_what_became_wrong_since_the_approval_fails_and_what_was_shown_before_it_only_warns(words: str) -> None:
    wrong = configs({"t": {}, "u": WRONG[words]})
    checks = checks_of(now=wrong)
    assert ("sound", "u") in failed(checks)
    assert words in checks["sound", "u"].finding
    assert not checks["sound", "u"].finding.startswith(SHOWN)
    checks = checks_of(before=wrong, now=wrong)
    assert failed(checks) == []
    assert checks["sound", "u"].warns
    assert checks["sound", "u"].finding.startswith(SHOWN)
    assert words in checks["sound", "u"].finding


def test_batches_that_are_refused_since_the_approval_fail() -> None:
    checks = checks_of(now=configs({"t": {}, "u": {"segment.bytes": 1_048_580}}))
    assert ("sound", "u") in failed(checks)
    assert "max.message.bytes 1048588" in checks["sound", "u"].finding


def test_a_known_fault_on_one_broker_does_not_excuse_it_on_another() -> None:
    """Broker 1 had it, broker 2 has it now too."""
    small = reported(log_index_size_max_bytes=20)
    before, now = configs({"t": {}, "u": {}}, {1: small}), configs({"t": {}, "u": {}}, {1: small, 2: small})
    checks = [check for check in check_segments(MOVES[2:], before, now) if check.name == "segment_settings_sound"]
    assert [("on broker 1" in check.finding, check.passed) for check in checks] == [(True, True), (False, False)]


def test_a_warning_of_the_audit_is_a_warning_here() -> None:
    shorter = configs({"t": {}, "u": {"retention.ms": DAY}})
    check = checks_of(before=shorter, now=shorter)["sound", "u"]
    assert check.warns
    assert "a record can stay for 8 d 6 min" in check.finding
    assert "retention.ms: topic" in check.finding


def test_a_name_that_brokers_ignore_is_a_warning() -> None:
    assert checks_of(now=configs({"t": {}, "u": {"log.segment.bytes": "5"}}))["sound", "u"].warns


def test_brokers_with_the_same_fault_are_named_together() -> None:
    small = reported(log_index_size_max_bytes=20)
    checks = checks_of(now=configs({"t": {}, "u": {}}, {1: small, 3: small}))
    assert "on broker 1, 3 (" in checks["sound", "t"].finding


OTHER = configs({"t": {}, "u": {}}, {3: reported(log_roll_hours=24, log_retention_bytes=5)})


def test_a_partition_that_came_to_a_broker_with_other_static_values_warns_by_name() -> None:
    """It was shown before the approval."""
    check = checks_of(before=OTHER, now=OTHER)["same_on_new_broker", "t"]
    assert check.warns
    changes = "partition 0, broker 3: segment.ms 604800000 -> 86400000, retention.bytes -1 -> 5"
    assert check.finding.startswith(f"{SHOWN}{changes}")


def test_a_partition_that_rolls_otherwise_since_the_approval_fails() -> None:
    assert failed(checks_of(before=SAME, now=OTHER)) == [("unchanged", "t"), ("same_on_new_broker", "t")]


def test_brokers_that_already_differed_are_no_change_of_the_partition() -> None:
    """Old brokers 1 and 2 differ, new broker 3 is as 2: the partition rolls as it did on one of them."""
    differing = configs({"t": {}, "u": {}}, {1: reported(log_roll_hours=24)})
    assert all(check.passed and not check.warns for check in checks_of(differing, differing).values())


def without(broker: Any) -> Any:
    known = {b: values for b, values in SAME.brokers.items() if b != broker}
    return type(SAME)(SAME.topics, known)


def test_a_broker_that_could_not_be_asked_does_not_pass() -> None:
    checks = [check for check in check_segments(MOVES, SAME, without(1)) if not check.passed]
    assert [(check.subject, check.name) for check in checks] == [
        ("t", "segment_settings_sound"),
        ("u", "segment_settings_sound"),
    ]
    assert "on broker 1" in checks[0].finding


def test_a_broker_that_does_not_tell_everything_does_not_pass() -> None:
    silent = configs({"t": {}, "u": {}}, {2: {"log.segment.bytes": ("5", STATIC)}})
    assert ("sound", "u") in failed(checks_of(now=silent))


def test_a_broker_unknown_at_the_snapshot_does_not_count_as_unchanged() -> None:
    assert not checks_of(before=without(1))["unchanged", "u"].passed


def test_without_the_old_brokers_settings_nothing_is_called_the_same() -> None:
    only_new = type(SAME)(SAME.topics, {3: reported()})
    check = checks_of(before=only_new)["same_on_new_broker", "t"]
    assert not check.passed
    assert check.finding == "partition 0, broker 3: unknown on the old brokers, so not compared"
