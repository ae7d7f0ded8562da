"""Growth, the policy and the age of an approval: what has to be asked again before the first write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_rebalance.errors import ApprovalError, ReadError, StaleProposalError
from kafka_rebalance.run.approval_rules import check_approval_fresh, check_policy_unchanged
from kafka_rebalance.run.checks.drift import check_growth
from support.kafka.small_clusters import move, tp

GB = 1_000_000_000
COPIED = [
    move("t-0", [1, 2], [2, 3], size=GB),
    move("t-1", [1, 2], [3, 4], size=GB),
    move("u-0", [1, 2], [2, 1], size=9 * GB),
]


@pytest.mark.parametrize(
    ("t_0", "t_1", "limit", "asks_again"),
    [
        (GB, GB, 0.25, False),
        (GB + 750_000_000, GB, 0.25, False),  # exactly a quarter of 3 GB
        (GB + 750_000_001, GB, 0.25, True),
        (GB, GB + 400_000_000, 0.25, True),  # counts twice: two copies
        (2 * GB, 0, 0.25, False),  # retention has taken as much elsewhere
        (0, 0, 0.0, False),
        (GB + 1_000_001, GB, 0.0, True),
        (GB + 1_000_000, GB, 0.0, False),  # less than is worth a second look
    ],
)
def test_much_more_to_copy_than_was_approved_must_be_asked_again(
    t_0: Any, t_1: Any, limit: float, asks_again: bool
) -> None:
    sizes = {tp("t-0"): t_0, tp("t-1"): t_1}  # what is only re-ordered copies nothing
    if not asks_again:
        check_growth(COPIED, sizes, limit)
        return
    with pytest.raises(StaleProposalError, match=r"growth_limit is .*The largest growth: t-.* Start a new"):
        check_growth(COPIED, sizes, limit)


def test_sizes_that_cannot_be_read_have_not_stayed_the_same() -> None:
    with pytest.raises(ReadError, match=r"leaders of 1 partitions report no size \(t-1\)"):
        check_growth(COPIED, {tp("t-0"): GB, tp("t-1"): None}, 0.25)


def test_an_approval_expires_from_the_time_before_which_nothing_may_begin() -> None:
    noon, given = datetime(2026, 3, 1, 12, tzinfo=UTC), datetime(2026, 2, 27, 12, tzinfo=UTC)
    check_approval_fresh(given, 3600, noon, not_before=datetime(2026, 3, 1, 11, 30, tzinfo=UTC))
    with pytest.raises(ApprovalError, match="counts from 2026-03-01 10:30 UTC, when the run could begin"):
        check_approval_fresh(given, 3600, noon, not_before=datetime(2026, 3, 1, 10, 30, tzinfo=UTC))
    check_approval_fresh(
        datetime.fromisoformat("2026-03-01T11:30:00+00:00"), 3600, noon, not_before=datetime(2026, 2, 1, tzinfo=UTC)
    )


def test_an_approval_of_a_time_to_come_is_refused_since_its_age_cannot_be_told() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    check_approval_fresh(datetime.fromisoformat("2026-03-01T12:04:00+00:00"), 3600, noon)
    with pytest.raises(ApprovalError, match="cannot tell whether the approval has expired"):
        check_approval_fresh(datetime.fromisoformat("2026-03-02T12:00:00+00:00"), 3600, noon)
    with pytest.raises(ApprovalError, match="has expired"):
        check_approval_fresh(datetime.fromisoformat("2026-02-28T12:00:00+00:00"), 3600, noon)


def test_an_approval_that_is_too_old_before_the_first_write_must_be_asked_again() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    check_approval_fresh(datetime.fromisoformat("2026-03-01T11:00:00+00:00"), 3600, noon)
    check_approval_fresh(datetime.fromisoformat("2026-03-01T13:00:00+01:00"), 3600, noon)
    with pytest.raises(ApprovalError, match=r"approval of 2026-03-01 10:59 UTC has expired.*ask for an approval"):
        check_approval_fresh(datetime.fromisoformat("2026-03-01T10:59:59+00:00"), 3600, noon)


def test_the_five_partitions_that_have_grown_most_are_named_the_largest_first() -> None:
    moves = [move(f"t-{number}", [1, 2], [2, 3], size=GB) for number in range(8)]
    sizes = {one.topic_partition: GB + number * GB for number, one in enumerate(moves)}
    with pytest.raises(StaleProposalError) as stale:
        check_growth(moves, sizes, 0.1)
    named = str(stale.value).partition("The largest growth: ")[2].partition(". Start")[0]
    assert [one.split(" by ")[0] for one in named.split(", ")] == ["t-7", "t-6", "t-5", "t-4", "t-3"]


def test_a_partition_that_has_not_grown_is_not_named() -> None:
    moves = [move(f"t-{number}", [1, 2], [2, 3], size=GB) for number in range(3)]
    sizes = {tp("t-0"): 5 * GB, tp("t-1"): GB, tp("t-2"): GB + 1}
    with pytest.raises(StaleProposalError) as stale:
        check_growth(moves, sizes, 0.1)
    named = str(stale.value).partition("The largest growth: ")[2].partition(". Start")[0]
    assert [one.split(" by ")[0] for one in named.split(", ")] == ["t-0", "t-2"]


def test_the_policy_must_be_the_approved_one() -> None:
    check_policy_unchanged("a" * 64, "a" * 64)
    with pytest.raises(StaleProposalError, match=r"aaaaaaaa at the approval and is bbbbbbbb now\. Start"):
        check_policy_unchanged("a" * 64, "b" * 64)


@pytest.mark.parametrize(("approved", "current"), [(None, "a"), ("a", None), (None, None)])
def test_without_a_policy_nothing_is_written(approved: str | None, current: str | None) -> None:
    with pytest.raises(StaleProposalError, match=r"read-only\."):
        check_policy_unchanged(approved, current)


def test_a_partition_that_is_empty_now_counts_as_nothing() -> None:
    check_growth(COPIED, {tp("t-0"): 3 * GB + 750_000_000, tp("t-1"): 0}, 0.25)
    with pytest.raises(StaleProposalError):
        check_growth(COPIED, {tp("t-0"): 3 * GB + 750_000_001, tp("t-1"): 0}, 0.25)
