"""Names and values of topic configs: types, ranges, what each version takes, and Kafka's texts."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.topic_configs import (
    check_topic_config,
    check_topic_config_names,
    check_topic_configs,
    parse_config_arguments,
)
from support.kafka.refusals import message_of

BIGGEST_INT, BIGGEST_LONG = (1 << 31) - 1, (1 << 63) - 1


@pytest.mark.parametrize("name", ["log.segment.bytes", "Segment.bytes", "", " segment.bytes", "min.insync.replica"])
def test_a_name_that_is_no_topic_config_is_refused(name: str) -> None:
    assert message_of(check_topic_config, name, "1") == f"Unknown topic config name: {name}"
    assert message_of(check_topic_config_names, ["segment.bytes", name]) == f"Unknown topic config name: {name}"


@pytest.mark.parametrize(
    ("name", "minimum", "maximum"),
    [
        ("segment.bytes", 14, BIGGEST_INT),
        ("segment.index.bytes", 0, BIGGEST_INT),
        ("max.message.bytes", 0, BIGGEST_INT),
        ("index.interval.bytes", 0, BIGGEST_INT),
        ("min.insync.replicas", 1, BIGGEST_INT),
        ("segment.ms", 1, BIGGEST_LONG),
        ("segment.jitter.ms", 0, BIGGEST_LONG),
        ("flush.messages", 0, BIGGEST_LONG),
        ("flush.ms", 0, BIGGEST_LONG),
        ("delete.retention.ms", 0, BIGGEST_LONG),
        ("min.compaction.lag.ms", 0, BIGGEST_LONG),
        ("file.delete.delay.ms", 0, BIGGEST_LONG),
        ("message.timestamp.difference.max.ms", 0, BIGGEST_LONG),
    ],
)
def test_integers_have_a_type_and_a_minimum(name: str, minimum: int, maximum: Any) -> None:
    kind = "INT" if maximum == BIGGEST_INT else "LONG"
    for value in (minimum, maximum):
        check_topic_config(name, f" {value} ")
    for text in (str(maximum + 1), "", "1.0", "1e3", "ten", "1 0", "1_000", "0x10", "٣٣" + "\U0001d7d9"):
        refused = f"Invalid value {text} for configuration {name}: Not a number of type {kind}"
        assert message_of(check_topic_config, name, text) == refused
    refused = f"Invalid value {minimum - 1} for configuration {name}: Value must be at least {minimum}"
    assert message_of(check_topic_config, name, f" +{minimum - 1} " if minimum > 0 else f"{minimum - 1}") == refused


@pytest.mark.parametrize("name", ["retention.ms", "retention.bytes"])
@pytest.mark.parametrize("value", ["-1", "0", "-9223372036854775808", "9223372036854775807"])
def test_retention_is_any_long_in_2_0(name: str, value: str) -> None:
    check_topic_config(name, value)


@pytest.mark.parametrize("value", ["0", "1", "0.5", " .5 ", "1.", "5e-1", "0.5f", "1d", "0x1p-1", "NaN", "-0.0"])
def test_a_ratio_is_a_number_from_0_to_1_as_java_reads_it(value: str) -> None:
    check_topic_config("min.cleanable.dirty.ratio", value)


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ("-0.1", "Invalid value -0.1 for configuration min.cleanable.dirty.ratio: Value must be at least 0"),
        ("-.0005", "Invalid value -5.0E-4 for configuration min.cleanable.dirty.ratio: Value must be at least 0"),
        ("2", "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"),
        ("1e9", "Invalid value 1.0E9 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"),
        (
            "-12345e-9",
            "Invalid value -1.2345E-5 for configuration min.cleanable.dirty.ratio: Value must be at least 0",
        ),
        (
            "Infinity",
            "Invalid value Infinity for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "0x1p9999",
            "Invalid value Infinity for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        *(
            (
                text,
                f"Invalid value {text} for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
            )
            for text in ["", ".", "1,5", "half", "nan", "inf", "NaNf", "1_0.5", "1e", "0x1", "\u00a01"]
        ),
    ],
)
def test_a_ratio_that_is_none_is_refused_as_java_prints_it(value: Any, refused: Any) -> None:
    assert message_of(check_topic_config, "min.cleanable.dirty.ratio", value) == refused


@pytest.mark.parametrize("name", ["unclean.leader.election.enable", "preallocate", "message.downconversion.enable"])
def test_a_boolean_is_true_or_false_in_any_case(name: str) -> None:
    for text in ("true", "FALSE", " True "):
        check_topic_config(name, text)
    for text in ("", "yes", "1", "\u00a0true"):
        refused = f"Invalid value {text} for configuration {name}: Expected value to be either true or false"
        assert message_of(check_topic_config, name, text) == refused


def test_a_cleanup_policy_is_a_list_of_compact_and_delete_in_lower_case() -> None:
    for text in ("compact", "delete", "compact,delete", " delete , compact ", "delete,delete", ""):
        check_topic_config("cleanup.policy", text)
    for text, wrong in {"Compact": "Compact", "delete,": "", "delete;compact": "delete;compact", ",": ""}.items():
        refused = f"Invalid value {wrong} for configuration cleanup.policy: String must be one of: compact, delete"
        assert message_of(check_topic_config, "cleanup.policy", text) == refused


def test_a_timestamp_type_is_one_of_two() -> None:
    check_topic_config("message.timestamp.type", " LogAppendTime ")
    refused = "Invalid value createtime for configuration message.timestamp.type: String must be one of: "
    assert (
        message_of(check_topic_config, "message.timestamp.type", "createtime") == refused + "CreateTime, LogAppendTime"
    )


def test_zstd_is_a_compression_from_2_1_on() -> None:
    assert message_of(check_topic_config, "compression.type", "zstd") == (
        "Invalid value zstd for configuration compression.type: String must be one of: "
        "uncompressed, snappy, lz4, gzip, producer"
    )
    check_topic_config("compression.type", "zstd", version="2.1.0")
    assert message_of(check_topic_config, "compression.type", "none", version="2.8") == (
        "Invalid value none for configuration compression.type: String must be one of: "
        "uncompressed, zstd, lz4, snappy, gzip, producer"
    )


@pytest.mark.parametrize("name", ["leader.replication.throttled.replicas", "follower.replication.throttled.replicas"])
def test_throttled_replicas_are_a_star_or_pairs(name: str) -> None:
    for text in ("", "*", "0:1", "0:1, 1:2", "0:1,,", " * "):
        check_topic_config(name, text)
        check_topic_config(name, text, version="3.9.2")
    refused = (
        f"Invalid value [0:1, x] for configuration {name}: {name} must be the literal '*' or a list of replicas in "
    )
    assert message_of(check_topic_config, name, "0:1 , x") == (
        refused + "the following format: [partitionId],[brokerId]:[partitionId],[brokerId]:..."
    )
    assert message_of(check_topic_config, name, "0:1,x", version="2.3.0") == (
        refused + "the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def test_a_star_before_throttled_replicas_means_all_until_2_7() -> None:
    for text in ("*,0:1", "*,x"):
        check_topic_config("leader.replication.throttled.replicas", text, version="2.7")
        with pytest.raises(KafkaRuleError):
            check_topic_config("leader.replication.throttled.replicas", text, version="2.8")
    with pytest.raises(KafkaRuleError):
        check_topic_config("leader.replication.throttled.replicas", "0:1,*")


@pytest.mark.parametrize(
    ("name", "value", "since"),
    [
        ("max.compaction.lag.ms", "1", "2.3"),
        ("remote.storage.enable", "true", "3.0"),
        ("local.retention.ms", "-2", "3.0"),
        ("local.retention.bytes", "-2", "3.0"),
        ("message.timestamp.before.max.ms", "0", "3.6"),
        ("message.timestamp.after.max.ms", "0", "3.6"),
        ("compression.gzip.level", "-1", "3.8"),
        ("compression.lz4.level", "17", "3.8"),
        ("compression.zstd.level", "-131072", "3.8"),
        ("remote.log.copy.disable", "false", "3.9"),
        ("remote.log.delete.on.disable", "false", "3.9"),
    ],
)
def test_later_versions_know_more_names(name: str, value: str, since: str) -> None:
    versions = ["2.0.1", "2.2", "2.3", "2.8.2", "3.0", "3.5", "3.6", "3.7", "3.8", "3.9.2"]
    known = versions[versions.index(since if since != "3.9" else "3.9.2") :]
    for version in versions:
        if version in known:
            check_topic_config(name, value, version=version)
        else:
            assert message_of(check_topic_config, name, value, version=version) == f"Unknown topic config name: {name}"


@pytest.mark.parametrize(
    ("name", "value", "since", "reason"),
    [
        ("retention.ms", "-2", "2.2", "Value must be at least -1"),
        ("segment.index.bytes", "3", "3.3", "Value must be at least 4"),
        ("flush.messages", "0", "3.3", "Value must be at least 1"),
    ],
)
def test_later_versions_ask_for_more(name: str, value: str, since: str, reason: str) -> None:
    for version in ("2.0", "2.1", "2.2", "2.8", "3.2", "3.3", "3.9"):
        if version < since:
            check_topic_config(name, value, version=version)
        else:
            refused = f"Invalid value {value} for configuration {name}: {reason}"
            assert message_of(check_topic_config, name, value, version=version) == refused


@pytest.mark.parametrize(
    ("name", "level", "reason"),
    [
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "18", "Value must be no more than 17"),
        ("compression.zstd.level", "23", "Value must be no more than 22"),
    ],
)
def test_compression_levels_are_those_of_the_codec(name: str, level: str, reason: str) -> None:
    refused = f"Invalid value {level} for configuration {name}: {reason}"
    assert message_of(check_topic_config, name, level, version="3.9.2") == refused


@pytest.mark.parametrize(
    ("value", "version"),
    [
        ("0.8.0", "2.0"),
        ("0.10.2.1", "2.0"),
        ("0.10.0-IV1", "2.0"),
        ("2.0", "2.0.1"),
        ("2.0.99", "2.0"),
        ("2.0-IV1", "2.0"),
        ("2.0.", "2.8"),
        ("2.8-IV1", "2.8"),
        ("3.9-IV0", "3.9"),
    ],
)
def test_a_message_format_is_a_version_that_the_brokers_know(value: str, version: str) -> None:
    check_topic_config("message.format.version", value, version=version)


@pytest.mark.parametrize("value", ["", "2", "2.1", "0.10", "0.9.1", "2.0-IV2", "latest", "2,0"])
def test_a_message_format_that_no_broker_of_2_0_can_load_is_refused_although_its_tool_takes_it(value: str) -> None:
    with pytest.raises(KafkaRuleError, match="No broker could load the topic") as refused:
        check_topic_config("message.format.version", value)
    assert refused.value.kafka_message == f"Version `{value}` is not a valid version"


def test_a_message_format_that_ends_in_a_dot_is_one_until_3_2() -> None:
    check_topic_config("message.format.version", "2.0.", version="3.2")
    with pytest.raises(KafkaRuleError, match=r"Version 2\.0\. is not"):
        check_topic_config("message.format.version", "2.0.", version="3.3")


def test_a_message_format_is_refused_with_the_text_of_its_version() -> None:
    start = "Invalid value 9.9 for configuration message.format.version: "
    for version, reason in {"2.1": "Version `9.9`", "2.8.2": "Version `9.9`", "3.9.2": "Version 9.9"}.items():
        refused = message_of(check_topic_config, "message.format.version", " 9.9", version=version)
        assert refused == f"{start}{reason} is not a valid version"


# Several together


def test_all_names_come_before_any_value_and_values_by_kafkas_order() -> None:
    assert message_of(check_topic_configs, {"segment.ms": "x", "nope": "1"}) == "Unknown topic config name: nope"
    refused = message_of(check_topic_configs, {"preallocate": "x", "segment.bytes": "1", "flush.ms": "x"})
    assert refused == "Invalid value 1 for configuration segment.bytes: Value must be at least 14"


def test_compaction_lags_must_not_cross() -> None:
    both = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}
    for version in ("2.3", "2.8.2", "3.9.2"):
        assert message_of(check_topic_configs, both, version=version) == (
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)"
        )
        check_topic_configs({**both, "min.compaction.lag.ms": " 9"}, version=version)
        check_topic_configs({"min.compaction.lag.ms": str(BIGGEST_LONG)}, version=version)


def test_tiered_storage_is_left_to_those_who_can_see_that_all_brokers_have_it() -> None:
    check_topic_configs({"remote.storage.enable": "true"}, version="3.5")
    refused = message_of(check_topic_configs, {"remote.storage.enable": "true"}, version="3.6")
    assert refused.startswith("Tiered Storage functionality is disabled in the broker.")
    for key in ("remote.log.copy.disable", "remote.log.delete.on.disable"):
        refused = message_of(check_topic_configs, {"remote.storage.enable": "true", key: "true"}, version="3.9.2")
        assert refused.endswith("under Zookeeper's mode.")
        check_topic_configs({"remote.storage.enable": "false", key: "false"}, version="3.9.2")


def test_tiered_storage_stays_as_it_is() -> None:
    tiered, more = {"remote.storage.enable": "true"}, {"retention.ms": "5"}
    for version in ("3.6", "3.9.2"):
        check_topic_configs({**tiered, **more}, existing=tiered, version=version)
    for off in (more, {"remote.storage.enable": "false"}):
        check_topic_configs(off, existing=tiered, version="3.8")
        refused = message_of(check_topic_configs, off, existing=tiered, version="3.9.2")
        assert refused.startswith("It is invalid to disable remote storage without deleting remote data.")


@given(st.text(max_size=12), st.sampled_from(["2.0", "2.8.2", "3.9.2"]), st.data())
def test_no_value_ends_in_another_error_than_kafkas(value: Any, version: Any, data: Any) -> None:
    names = ["segment.bytes", "retention.ms", "min.cleanable.dirty.ratio", "cleanup.policy", "preallocate"]
    names += ["compression.type", "message.format.version", "leader.replication.throttled.replicas", "other"]
    name = data.draw(st.sampled_from(names))
    with suppress(KafkaRuleError):
        check_topic_config(name, value, version=version)


# Arguments


def test_config_arguments_are_split_at_the_equals_sign() -> None:
    assert parse_config_arguments([" a.b = c ", "d=e f", "a.b\t=\nx"]) == {"a.b": "x", "d": "e f"}
    assert parse_config_arguments(["a\u00a0=b"]) == {"a\u00a0": "b"}  # no blank to Java
    assert parse_config_arguments([]) == {}


@pytest.mark.parametrize("argument", ["", "a", "a=", "a= ", "=", " = ", "a=b=c", "a==b", "a = = "])
def test_a_config_argument_without_exactly_one_value_is_refused(argument: str) -> None:
    assert message_of(parse_config_arguments, ["x=y", argument]) == (
        'Invalid topic config: all configs to be added must be in the format "key=val".'
    )


@pytest.mark.parametrize(("argument", "expected"), [("=a", {"": "a"}), ("a=b=", {"a": "b"}), ("a=b==", {"a": "b"})])
def test_config_arguments_lose_empty_parts_at_the_end_as_in_java(argument: str, expected: Any) -> None:
    assert parse_config_arguments([argument]) == expected
