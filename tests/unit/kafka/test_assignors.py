"""Range and round robin: which member of a group reads which partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.kafka.assignors import range_assignment, round_robin_assignment

ASSIGNORS = (range_assignment, round_robin_assignment)


def of(topic: str, *partitions: int) -> list[tuple[str, int]]:
    return [(topic, partition) for partition in partitions]


def test_assignors_there_are_two_and_they_differ() -> None:
    """Seed 003, row 4: two assignors, range and roundrobin (the documentation's t0 and t1 with three each)."""
    subscriptions = {"C0": ["t0", "t1"], "C1": ["t0", "t1"]}
    assert range_assignment(subscriptions, {"t0": 3, "t1": 3}) == {
        "C0": of("t0", 0, 1) + of("t1", 0, 1),
        "C1": of("t0", 2) + of("t1", 2),
    }
    assert round_robin_assignment(subscriptions, {"t0": 3, "t1": 3}) == {
        "C0": of("t0", 0, 2) + of("t1", 1),
        "C1": of("t0", 1) + of("t1", 0, 2),
    }


def test_range_each_topic_is_divided_among_its_sorted_subscribers() -> None:
    """Seed 003, row 5: consumers per topic, sorted, the first r get one more; topics without partitions skipped."""
    subscriptions = {"C3": ["orders"], "C1": ["orders", "no-metadata"], "C2": ["clicks", "orders", "empty"]}
    assigned = range_assignment(subscriptions, {"orders": 8, "clicks": 2, "empty": 0})
    assert assigned == {
        "C3": of("orders", 6, 7),
        "C1": of("orders", 0, 1, 2),
        "C2": of("clicks", 0, 1) + of("orders", 3, 4, 5),
    }


@pytest.mark.parametrize(("partitions", "members"), [(10, 3), (10, 4), (7, 7), (3, 5), (1, 1), (12, 5)])
def test_range_start_and_length_follow_quotient_and_remainder(partitions: int, members: int) -> None:
    """Seed 003, row 6: start = q·i + min(i,r); length = q + (i+1>r ? 0 : 1)."""
    names = [f"C{i}" for i in range(members)]
    assigned = range_assignment({name: ["t"] for name in names}, {"t": partitions})
    q, r = divmod(partitions, members)
    for i, name in enumerate(names):
        start, length = q * i + min(i, r), q + (0 if i + 1 > r else 1)
        assert assigned[name] == of("t", *range(start, start + length))


def test_range_10_partitions_over_3_consumers() -> None:
    """Seed 003, row 7: 10 partitions / 3 consumers (figure: 4,3,3)."""
    assigned = range_assignment(dict.fromkeys(("C1", "C2", "C3"), ("t",)), {"t": 10})
    assert assigned == {"C1": of("t", 0, 1, 2, 3), "C2": of("t", 4, 5, 6), "C3": of("t", 7, 8, 9)}


def test_range_10_partitions_over_4_consumers() -> None:
    """Seed 003, row 8: 10 partitions / 4 consumers → 3,3,2,2."""
    assigned = range_assignment(dict.fromkeys(("C1", "C2", "C3", "C4"), ("t",)), {"t": 10})
    assert assigned == {"C1": of("t", 0, 1, 2), "C2": of("t", 3, 4, 5), "C3": of("t", 6, 7), "C4": of("t", 8, 9)}


def test_round_robin_example_of_two_topics_and_three_consumers() -> None:
    """Seed 003, row 9: T1[P1–P4], T2[P5–P10], C1:{T1} C2:{T1,T2} C3:{T2}: C1 P1,P3; C2 P2,P4,P6,P8,P10; C3 P5,P7,P9.

    The seed numbers partitions on from topic to topic: P5 is partition 0 of T2.
    """
    assigned = round_robin_assignment({"C1": ["T1"], "C2": ["T1", "T2"], "C3": ["T2"]}, {"T1": 4, "T2": 6})
    assert assigned == {"C1": of("T1", 0, 2), "C2": of("T1", 1, 3) + of("T2", 1, 3, 5), "C3": of("T2", 0, 2, 4)}


def test_assignors_consumers_and_topics_are_sorted_as_texts() -> None:
    """Seed 003, row 10: consumers and topics sorted lexicographically."""
    assert range_assignment({"C2": ["t"], "C10": ["t"]}, {"t": 1}) == {"C2": [], "C10": of("t", 0)}
    assigned = round_robin_assignment(dict.fromkeys(("C10", "C2"), ("t2", "t10")), {"t2": 1, "t10": 2})
    assert assigned == {"C10": of("t10", 0) + of("t2", 0), "C2": of("t10", 1)}


def test_assignors_member_ids_decide_and_not_the_order_of_joining() -> None:
    """Seed 003, row 11: memberId = client.id + UUID, so the real order is not the order of C1, C2, …"""
    first = "billing-2-0b6f3d2e-6d55-4b0f-b8b1-0f1f6f7f3c11"
    second = "billing-2-f3a1c6de-09f3-4b51-8d2b-7f7f1c0f9d22"
    third = "billing-3-00000000-0000-4000-8000-000000000000"
    for assign in ASSIGNORS:
        assigned = assign(dict.fromkeys((third, second, first), ("t",)), {"t": 3})
        assert assigned == {first: of("t", 0), second: of("t", 1), third: of("t", 2)}


def test_round_robin_passes_over_members_that_do_not_subscribe() -> None:
    subscriptions = {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]}
    assert round_robin_assignment(subscriptions, {"t0": 1, "t1": 2, "t2": 3}) == {
        "C0": of("t0", 0),
        "C1": of("t1", 0),
        "C2": of("t1", 1) + of("t2", 0, 1, 2),
    }


def test_names_sort_by_utf16_unit_as_in_java() -> None:
    """By code point U+FFFD comes before U+1F600, whose first UTF-16 unit is D83D."""
    for assign in ASSIGNORS:
        assert assign(dict.fromkeys(("\ufffd", "\U0001f600"), ("t",)), {"t": 1}) == {
            "\ufffd": [],
            "\U0001f600": of("t", 0),
        }


def test_members_that_get_nothing_are_there_with_an_empty_list() -> None:
    for assign in ASSIGNORS:
        assert assign({"C1": [], "C2": ["unknown"]}, {"t": 3}) == {"C1": [], "C2": []}
        assert assign({}, {"t": 3}) == {}


NAMES = st.text(max_size=6)
GROUPS = st.dictionaries(NAMES, st.lists(NAMES, max_size=5, unique=True), max_size=7)


@pytest.mark.slow
@given(GROUPS, st.dictionaries(NAMES, st.integers(0, 40), max_size=8))
def test_every_partition_that_somebody_subscribes_is_assigned_once_to_a_subscriber(
    subscriptions: dict[str, list[str]], partitions: dict[str, int]
) -> None:
    wanted = {topic for topics in subscriptions.values() for topic in topics}
    expected = sorted((topic, p) for topic, count in partitions.items() if topic in wanted for p in range(count))
    for assign in ASSIGNORS:
        assigned = assign(subscriptions, partitions)
        assert assigned.keys() == subscriptions.keys()
        assert sorted(held for lists in assigned.values() for held in lists) == expected
        assert all(topic in subscriptions[member] for member, lists in assigned.items() for topic, _ in lists)


@given(GROUPS, st.dictionaries(NAMES, st.integers(0, 40), max_size=8))
def test_ranges_are_contiguous_and_differ_by_at_most_one(
    subscriptions: dict[str, list[str]], partitions: dict[str, int]
) -> None:
    assigned = range_assignment(subscriptions, partitions)
    for topic in partitions:
        lengths = []
        for member in (member for member, topics in subscriptions.items() if topic in topics):
            held = [p for name, p in assigned[member] if name == topic]
            assert held == list(range(held[0], held[0] + len(held))) if held else True
            lengths.append(len(held))
        assert not lengths or max(lengths) - min(lengths) <= 1


@given(st.integers(1, 9), st.integers(0, 60), st.integers(0, 60))
def test_round_robin_is_even_over_all_topics_where_everyone_subscribes_all(
    members: int, first: int, second: int
) -> None:
    subscriptions = {f"C{i}": ["a", "b"] for i in range(members)}
    counts = [len(held) for held in round_robin_assignment(subscriptions, {"a": first, "b": second}).values()]
    assert max(counts) - min(counts) <= 1
