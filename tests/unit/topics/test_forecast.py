"""What an expansion does: keys and rows that move, who reads what, and what new partitions will hold."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.documents.key_sample import (
    REQUEST_FILE,
    SAMPLE_FILE,
    HeavyKey,
    KeySample,
    OffsetRange,
    SampleRequest,
    key_in_words,
    newest_rows,
)
from kafka_rebalance.errors import ArtifactError, InputError
from kafka_rebalance.kafka.partitioner import partition_for_key
from kafka_rebalance.model.consumer_groups import ConsumerGroup, GroupMember
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.topics.forecast import (
    MAX_COUNTS,
    Verdict,
    broker_costs,
    counts_to_try,
    disk_problems,
    expected_replica_bytes,
    forecast_groups,
    forecast_keys,
    moved_key_share,
)
from support.documents.as_in_a_file import in_json

TOPIC = "orders"


def sample_of(keys: Any, before: Any, counts: Any, *, placed: Any = partition_for_key, without_key: Any = 0) -> Any:
    """The sample that the keys job would find; `keys` are {key: rows}, `placed` is the producers' partitioner."""
    found = [without_key // before] * before
    rows = {count: [0] * count for count in counts}
    moved = dict.fromkeys(counts, 0)
    foreign = 0
    for key, number in keys.items():
        was = partition_for_key(key, before)
        found[placed(key, before)] += number
        foreign += number * (placed(key, before) != was)
        for count in counts:
            now = partition_for_key(key, count)
            rows[count][now] += number
            moved[count] += number * (now != was)
    heaviest = sorted(keys.items(), key=lambda item: (-item[1], item[0]))[:20]
    return KeySample(
        topic=TOPIC,
        partitions=before,
        ranges=tuple(OffsetRange(partition, 0, number) for partition, number in enumerate(found)),
        not_before_ms=0,
        rows=sum(keys.values()) + without_key,
        rows_without_key=without_key,
        foreign_rows=foreign,
        distinct_keys=len(keys),
        heaviest=tuple(HeavyKey(key_in_words(key), number) for key, number in heaviest),
        oldest_ms=1,
        newest_ms=2,
        found_rows=tuple(found),
        murmur2_rows={count: tuple(by_partition) for count, by_partition in rows.items()},
        moved_rows=moved,
    )


def numbered(count: Any, rows: Any = 1) -> Any:
    return {f"key-{number}".encode(): rows for number in range(count)}


@given(st.integers(1, 60), st.integers(0, 60))
def test_the_share_of_keys_that_move_is_what_counting_every_hash_gives(before: Any, added: Any) -> None:
    after = before + added
    cycle = lcm(before, after)
    moved = sum(value % before != value % after for value in range(cycle))
    assert moved_key_share(before, after) == Fraction(moved, cycle)


def test_expansion_moves_half_the_keys_when_doubled_and_more_when_not() -> None:
    assert moved_key_share(6, 12) == Fraction(1, 2)
    assert moved_key_share(6, 18) == Fraction(2, 3)
    assert moved_key_share(6, 8) == Fraction(3, 4)
    assert moved_key_share(6, 7) == Fraction(6, 7)
    assert moved_key_share(6, 6) == 0


@pytest.mark.parametrize(("before", "after"), [(0, 3), (4, 3), (-1, 2)])
def test_a_topic_cannot_shrink(before: int, after: int) -> None:
    with pytest.raises(InputError, match="cannot be expanded"):
        moved_key_share(before, after)


@given(st.integers(1, 5000), st.integers(0, 5000))
def test_the_counts_tried_are_few_and_hold_what_is_asked_and_every_multiple(before: Any, added: Any) -> None:
    counts = counts_to_try(before, before + added)
    assert {before, before + added, 2 * before, 3 * before, 4 * before} <= set(counts)
    assert len(counts) <= MAX_COUNTS
    assert min(counts) == before
    assert list(counts) == sorted(set(counts))


def test_without_a_sample_the_exact_share_stays_and_the_reason_is_said() -> None:
    forecast = forecast_keys(TOPIC, 6, 8, not_sampled="the brokers refused the user")
    assert (forecast.moved_keys, forecast.moved_keys_exact) == (0.75, "3/4")
    assert forecast.text == "Keys were not sampled: the brokers refused the user."
    assert (forecast.verdict, forecast.chosen, forecast.better) == (None, None, ())


def test_rows_that_move_are_counted_as_they_are_and_not_as_keys_would_be() -> None:
    keys = {b"21": 60, b"foobar": 40}
    forecast = forecast_keys(TOPIC, 2, 4, sample_of(keys, 2, counts_to_try(2, 4)))
    moved = sum(rows for key, rows in keys.items() if partition_for_key(key, 2) != partition_for_key(key, 4))
    assert forecast.chosen.moved_rows == moved / 100
    assert forecast.chosen.moved_keys == 0.5


@pytest.mark.slow
def test_many_keys_lie_evenly() -> None:
    sample = sample_of(numbered(20_000), 6, counts_to_try(6, 12))
    forecast = forecast_keys(TOPIC, 6, 12, sample)
    assert forecast.verdict == Verdict.EVEN
    assert 1 <= forecast.chosen.skew < 1.1
    assert forecast.skew_found == forecast.skew_before  # they are where murmur2 puts them
    assert forecast.chosen.moved_rows == pytest.approx(0.5, abs=0.02)


def test_one_heavy_key_is_named_as_what_no_number_of_partitions_fixes() -> None:
    keys = numbered(590) | {b"everybody": 410}
    forecast = forecast_keys(TOPIC, 4, 8, sample_of(keys, 4, counts_to_try(4, 8)))
    assert forecast.verdict == Verdict.KEYS
    assert forecast.text == "1 key = 41 % of the sampled rows: no number of partitions and no rebalance fixes this."
    assert forecast.better == ()
    assert forecast.chosen.skew >= 0.41 * 8


def test_few_keys_of_one_weight_that_fall_unevenly_are_a_matter_of_placement() -> None:
    """15 keys, all equally frequent, that happen to fall into half of the partitions."""
    keys = {key: 20 for key in numbered(400) if partition_for_key(key, 4) < 2}
    keys = dict(list(keys.items())[:15])
    forecast = forecast_keys(TOPIC, 2, 4, sample_of(keys, 2, counts_to_try(2, 4)))
    assert forecast.verdict == Verdict.PLACEMENT
    assert "no key is to blame" in forecast.text


@pytest.mark.slow
def test_better_counts_have_less_skew_or_move_fewer_keys_with_the_same() -> None:
    forecast = forecast_keys(TOPIC, 6, 11, sample_of(numbered(30_000), 6, counts_to_try(6, 11)))
    assert forecast.better
    assert {count.partitions for count in forecast.better}.isdisjoint({6, 11})
    for count in forecast.better:
        assert count.moved_keys < forecast.chosen.moved_keys
        assert count.skew <= forecast.chosen.skew * 1.05
    assert forecast.better[0].partitions == 12  # a multiple: half the keys stay


def test_nothing_is_better_than_the_best() -> None:
    assert forecast_keys(TOPIC, 6, 12, sample_of(numbered(30_000), 6, (6, 11, 12, 13))).better == ()


def test_rows_that_are_not_where_murmur2_puts_them_are_another_partitioner() -> None:
    sample = sample_of(numbered(1000), 4, (4, 8), placed=lambda key, count: len(key) % count)
    forecast = forecast_keys(TOPIC, 4, 8, sample)
    assert forecast.verdict == Verdict.OTHER_PARTITIONER
    assert "does not apply" in forecast.text
    assert forecast.better == ()


def test_a_topic_without_keys_spreads_by_itself() -> None:
    forecast = forecast_keys(TOPIC, 4, 8, sample_of({}, 4, (4, 8), without_key=1000))
    assert forecast.verdict == Verdict.NO_KEYS
    assert forecast.chosen.skew == 1


def test_rows_without_key_soften_the_skew_of_those_with() -> None:
    keyed = forecast_keys(TOPIC, 4, 8, sample_of({b"a": 1000}, 4, (4, 8)))
    mixed = forecast_keys(TOPIC, 4, 8, sample_of({b"a": 1000}, 4, (4, 8), without_key=1000))
    assert keyed.chosen.skew == 8
    assert mixed.chosen.skew == (1000 + 125) * 8 / 2000


@pytest.mark.parametrize("keys", [{}, numbered(30)])
def test_too_few_rows_are_no_verdict(keys: Any) -> None:
    forecast = forecast_keys(TOPIC, 4, 8, sample_of(keys, 4, (4, 8)))
    assert forecast.verdict == Verdict.TOO_FEW_ROWS
    assert forecast.better == ()


def test_a_sample_of_another_number_of_partitions_is_refused() -> None:
    with pytest.raises(InputError, match="Sample the topic again"):
        forecast_keys(TOPIC, 4, 9, sample_of(numbered(30), 4, (4, 8)))


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=20), st.integers(0, 5000))
def test_a_bounded_range_is_the_newest_part_of_it_and_all_keep_the_same_part(given_ranges: Any, max_rows: Any) -> None:
    ranges = [OffsetRange(partition, start, start + rows) for partition, (start, rows) in enumerate(given_ranges)]
    total = sum(each.offsets for each in ranges)
    kept = newest_rows(ranges, max_rows)
    assert sum(each.offsets for each in kept) <= max_rows
    assert [each.end for each in kept] == [each.end for each in ranges]
    part: Any = min(1, Fraction(max_rows, total)) if total else 1
    for whole, bounded in zip(ranges, kept, strict=True):
        assert whole.offsets * part - 1 < bounded.offsets <= whole.offsets * part


def test_sample_and_request_come_back_from_json_as_they_went() -> None:
    sample = sample_of(numbered(50) | {b"": 3}, 4, (4, 8), without_key=4)
    assert SAMPLE_FILE.decode(in_json(sample)) == sample
    request = SampleRequest(TOPIC, 2, (OffsetRange(0, 5, 9), OffsetRange(1, 0, 0)), 1_700_000_000_000, (2, 4))
    assert REQUEST_FILE.decode(in_json(request)) == request


@pytest.mark.parametrize(
    "document", [{}, {"topic": "t", "partitions": "x"}, {"topic": "t", "partitions": 1, "ranges": [1]}]
)
def test_a_file_that_holds_something_else_is_its_own_error(document: Any) -> None:
    for file in (REQUEST_FILE, SAMPLE_FILE):
        with pytest.raises(ArtifactError, match="Clear the task"):
            file.decode(document)


def test_the_forecast_of_keys_is_plain_json() -> None:
    forecast = forecast_keys(TOPIC, 4, 8, sample_of(numbered(500), 4, counts_to_try(4, 8)))
    document = in_json(forecast)
    assert document["moved_keys_exact"] == "1/2"
    assert document["chosen"]["partitions"] == 8
    assert document["sample"]["distinct_keys"] == 500
    assert "murmur2_rows" not in document["sample"]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"customer-7", "customer-7"),
        ("größe".encode(), "größe"),
        (b"", "(empty)"),
        (bytes(8), "0x0000000000000000"),
        (b"\xff\xfe", "0xfffe"),
        (b"a\nb", "0x610a62"),
        (b"x" * 50, "x" * 40 + "… (50 bytes)"),
    ],
)
def test_keys_are_shown_as_text_where_they_are_text(key: Any, text: Any) -> None:
    assert key_in_words(key) == text


@given(st.binary(max_size=200))
def test_whatever_a_key_holds_it_is_shown_in_one_short_printable_line(key: Any) -> None:
    assert key_in_words(key).isprintable()
    assert len(key_in_words(key)) < 60


# --- who reads what before and after an expansion ---


def member(name: Any, *topics: Any, assigned: Any = (), instance: Any = None) -> Any:
    partitions = tuple(TopicPartition(topic, partition) for topic, partition in assigned)
    return GroupMember(f"{name}-uuid", name, "/127.0.0.1", topics, partitions, instance)


def group(*members: Any, assignor: Any = "range", committed: Any = (0,)) -> Any:
    return ConsumerGroup("billing", "Stable" if members else "Empty", assignor if members else "", members, committed)


def forecast_one(after: Any, reading: Any, **partitions: Any) -> Any:
    (forecast,) = forecast_groups("t", after, [reading], partitions)
    return forecast


def by_member(forecast: Any, assignor: Any) -> Any:
    (found,) = [each for each in forecast.assignors if each.assignor == assignor]
    return {each.client_id: (each.before, each.after) for each in found.members}


def test_each_member_has_its_partitions_before_and_after_under_both_assignors() -> None:
    forecast = forecast_one(10, group(*(member(name, "t") for name in "abc")), t=4)
    assert by_member(forecast, "range") == {
        "a": ((0, 1), (0, 1, 2, 3)),
        "b": ((2,), (4, 5, 6)),
        "c": ((3,), (7, 8, 9)),
    }
    assert by_member(forecast, "roundrobin") == {
        "a": ((0, 3), (0, 3, 6, 9)),
        "b": ((1,), (1, 4, 7)),
        "c": ((2,), (2, 5, 8)),
    }
    range_, round_robin = forecast.assignors
    assert (range_.imbalance_before, range_.imbalance_after) == (2 / (4 / 3), 4 / (10 / 3))
    assert range_.in_use
    assert not round_robin.in_use


def test_more_partitions_put_idle_members_to_work() -> None:
    forecast = forecast_one(6, group(*(member(name, "t") for name in "abcd")), t=2)
    for assignor in forecast.assignors:
        assert (assignor.idle_before, assignor.idle_after) == (2, 0)


def test_range_lets_the_first_members_accumulate_over_topics_and_round_robin_does_not() -> None:
    reading = group(member("a", "t", "u"), member("b", "t", "u"))
    forecast = forecast_one(3, reading, t=2, u=3)
    range_, round_robin = forecast.assignors
    assert range_.imbalance_after == 4 / 3
    assert round_robin.imbalance_after == 1
    assert [each.all_after for each in range_.members] == [4, 2]
    assert by_member(forecast, "range")["a"] == ((0,), (0, 1))


def test_the_imbalance_now_is_of_the_real_assignment_whatever_the_assignor() -> None:
    reading = group(member("a", "t", assigned=[("t", 0), ("t", 1), ("t", 2)]), member("b", "t"), assignor="sticky")
    forecast = forecast_one(6, reading, t=3)
    assert forecast.imbalance_now == 2
    assert not any(assignor.in_use for assignor in forecast.assignors)


def test_topics_that_had_the_same_number_of_partitions_no_longer_match() -> None:
    reading = group(member("a", "t", "clicks"), member("b", "t", "views", "gone"))
    assert forecast_one(6, reading, t=3, clicks=3, views=6).no_longer_matching == ("clicks",)
    assert forecast_one(3, reading, t=3, clicks=3, views=6).no_longer_matching == ()


def test_a_group_without_members_still_shows_what_it_has_committed() -> None:
    forecast = forecast_one(6, group(committed=(0, 2)), t=3)
    assert (forecast.members, forecast.committed, forecast.imbalance_now, forecast.assignors) == (0, (0, 2), None, ())


def test_a_group_whose_members_are_still_joining_has_no_assignment_to_compare() -> None:
    joining = ConsumerGroup("billing", "PreparingRebalance", "", (member("a"), member("b")), ())
    forecast = forecast_one(6, joining, t=3)
    assert (forecast.members, forecast.imbalance_now, forecast.assignors) == (2, None, ())


def test_static_members_come_first_by_their_instance_id() -> None:
    """AbstractPartitionAssignor.MemberInfo.compareTo (2.3+)."""
    reading = group(member("a", "t"), member("z", "t", instance="2"), member("y", "t", instance="1"))
    assert by_member(forecast_one(3, reading, t=1), "range") == {"y": ((0,), (0,)), "z": ((), (1,)), "a": ((), (2,))}


def test_the_forecast_of_a_group_is_plain_json() -> None:
    forecast = forecast_one(6, group(member("a", "t", assigned=[("t", 0)])), t=3)
    assert in_json(forecast)["assignors"][0]["members"][0]["after"] == [0, 1, 2, 3, 4, 5]


def test_a_topic_whose_partitions_are_not_known_cannot_be_forecast() -> None:
    with pytest.raises(KeyError):
        forecast_one(6, group(member("a", "t")), u=3)


# --- what new partitions will hold, by broker ---

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("rate", "partitions", "retention_ms", "retention_bytes", "policy", "expected"),
    [
        (1000, 10, DAY_MS, -1, ("delete",), 100 * 86_400),  # rate x retention over the partitions
        (1000, 10, DAY_MS, 5_000, ("delete",), 5_000),  # the size limit comes first
        (None, 10, DAY_MS, 5_000, ("delete",), 5_000),  # no rate: the size limit alone bounds it
        (1000, 10, -1, -1, ("delete",), None),  # unlimited
        (None, 10, DAY_MS, -1, ("delete",), None),  # nobody said how much is written
        (1000, 10, DAY_MS, -1, ("compact",), None),  # compaction bounds keys, not bytes
        (1000, 10, DAY_MS, -1, ("compact", "delete"), 100 * 86_400),
        (0, 10, DAY_MS, -1, ("delete",), 0),
    ],
)
def test_a_replica_holds_rate_times_retention_up_to_the_size_limit(
    rate: int | None, partitions: int, retention_ms: Any, retention_bytes: int, policy: Any, expected: Any
) -> None:
    found = expected_replica_bytes(
        rate, partitions, retention_ms=retention_ms, retention_bytes=retention_bytes, cleanup_policy=policy
    )
    assert found == expected


def test_every_broker_is_told_what_it_gets() -> None:
    first, second = broker_costs({0: (1, 2), 1: (2, 1), 2: (1, 2)}, 10, {1: (100, 50)})
    assert (first.broker, first.replicas, first.leaders, first.bytes) == (1, 3, 2, 30)
    assert first.disk_fraction_after == 0.8
    assert (second.broker, second.leaders, second.disk_fraction_after) == (2, 1, None)


def test_only_a_disk_that_is_known_to_fill_up_is_a_problem() -> None:
    costs = broker_costs({0: (1, 2)}, 50, {1: (100, 45), 2: (None, None)})
    assert disk_problems(costs, 0.05) == ()
    assert disk_problems(costs, 0.1) == (
        "the disk of broker 1 would be 95 % full with 50 bytes of this topic, but 10 % must stay free",
    )
    assert disk_problems(broker_costs({0: (1,)}, None, {1: (100, 99)}), 0.1) == ()
