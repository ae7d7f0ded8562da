"""What is said of the log dirs that may get fullest."""

from __future__ import annotations

from typing import Any

from kafka_rebalance.documents.json_files import decode
from kafka_rebalance.documents.proposals import LogDirPeaks
from kafka_rebalance.pages.candidate_report import amount, fullest_words
from support.documents import report_samples as samples


def peaks(*shares: tuple[float, float, float], **changes: Any) -> LogDirPeaks:
    return decode(LogDirPeaks, samples.log_dirs(*shares, **changes), "proposals.json")


def said(*shares: tuple[float, float, float], **changes: Any) -> str:
    return fullest_words(peaks(*shares, **changes), str)


def test_the_fullest_is_said_with_what_is_expected_and_what_is_nearly_certain() -> None:
    assert said((0.4, 0.71, 0.78), (0.4, 0.6, 0.7)) == (
        "/var/lib/kafka/data1 of broker 5, 71 % expected, in nine of ten cases 78 % at most"
    )


def test_one_figure_is_said_where_both_are_the_same() -> None:
    assert said((0.4, 0.71, 0.712)) == "/var/lib/kafka/data1 of broker 5, 71 %"


def test_bytes_are_said_where_brokers_do_not_tell_sizes() -> None:
    assert said((0.25, 0.5, 0.75), total=None).endswith("256 GiB expected, in nine of ten cases 384 GiB at most")
    (one,) = peaks((0.25, 0.5, 0.75), total=None).listed
    assert amount(one, one.used_bytes) == "128 GiB"
    (sized,) = peaks((0.25, 0.5, 0.75)).listed
    assert amount(sized, sized.used_bytes) == "128 GiB (25 %)"


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert fullest_words(None, str) == fullest_words(LogDirPeaks(), str) == ""
