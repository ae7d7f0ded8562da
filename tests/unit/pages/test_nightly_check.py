"""What the clusters' page says of a nightly check, also of one by an earlier version."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.pages.fleet import CHECK_FILE

OF_0_1_0 = {"observed_at": "2026-05-03T02:15:00+00:00", "text": "replicas are even", "imbalance": 0.1, "limit": 0.2,
            "rack_violations": 0}  # fmt: skip
FULLEST = {"broker": 4, "used_bytes": 91, "capacity_bytes": 100}


def words(fullest: dict[str, Any] | None, first: tuple[int, float] | None, known: bool) -> tuple[str, str]:
    first_full = None if first is None else {"broker": first[0], "days": first[1], "growth_bytes_per_day": 7}
    found = {"fullest": fullest, "first_full": first_full, "growth_is_known": known}
    check = CHECK_FILE.decode({**OF_0_1_0, "disks": found})
    return check.fullest_words, check.until_full_words


def test_replicas_outside_their_pools_are_past_the_limit() -> None:
    assert CHECK_FILE.decode(OF_0_1_0).is_past_limit is False
    assert CHECK_FILE.decode({**OF_0_1_0, "outside_pools": 1}).is_past_limit is True


@pytest.mark.parametrize(
    ("first", "known", "said"),
    [
        ((4, 12.4), True, "full in 12 d"),
        ((4, 1.25), True, "full in 1 d 6 h"),
        ((7, 3.0), True, "broker 7 is full in 3 d"),
        ((4, 400.0), True, "not full within a year"),
        (None, True, "no disk fills up"),
        (None, False, "growth unknown"),
    ],
)
def test_the_fullest_disk_and_how_long_disks_last(first: tuple[int, float] | None, known: bool, said: str) -> None:
    assert words(FULLEST, first, known) == ("91 %, broker 4", said)


def test_the_fullest_log_dir_is_named_where_it_is_fuller_than_the_disks_of_its_broker_together() -> None:
    log_dir = {"broker": 4, "path": "/data2", "used_bytes": 97, "total_bytes": 100}
    full, half = (
        CHECK_FILE.decode(
            {**OF_0_1_0, "disks": {"fullest": FULLEST, "fullest_log_dir": log_dir | {"used_bytes": used}}}
        )
        for used in (97, 50)
    )
    assert (full.fullest_words, half.fullest_words) == ("97 %, /data2 of broker 4", "91 %, broker 4")


def test_disks_of_unknown_size_are_unknown() -> None:
    assert words(None, None, False) == ("unknown", "")


def test_a_check_of_an_earlier_version_is_read_and_its_disks_are_unknown() -> None:
    check = CHECK_FILE.decode(OF_0_1_0)
    assert (check.fullest_words, check.until_full_words, check.is_past_limit) == ("unknown", "", False)
    assert check.skew_words == "Loads 10 % off their share, limit 20 %"


def test_a_check_without_its_figures_is_not_read_as_an_even_cluster() -> None:
    with pytest.raises(ArtifactError, match=r"verdict.json: .*imbalance"):
        CHECK_FILE.decode({key: value for key, value in OF_0_1_0.items() if key != "imbalance"})
