"""Disks before, during and after a plan, in words and pictures: of brokers, over time, and of log dirs."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kafka_rebalance.documents.json_files import decode
from kafka_rebalance.documents.proposals import LogDirPeaks
from kafka_rebalance.model.amounts_in_words import bound_in_words
from kafka_rebalance.pages.candidate_report import DiskCourse, amount, fullest_words
from kafka_rebalance.pages.page import render_file
from kafka_rebalance.pages.plots import disk_plot, glance_plot
from kafka_rebalance.pages.tables import BrokerChange, Load
from support.documents import report_samples as samples
from support.documents.built_report import planned


def test_the_page_says_how_full_disks_get_and_when() -> None:
    page = render_file(planned())
    assert "Disks while it runs" in page
    assert ">860\N{NO-BREAK SPACE}GiB (84\N{NO-BREAK SPACE}%)</td>" in page
    assert "Disks of brokers 1, 5 over 3 batches: 84 % full at most" in page


def with_log_dirs(path: str = "/var/lib/kafka/data1") -> dict[str, Any]:
    found = samples.log_dirs((0.4, 0.71, 0.78), (0.4, 0.4, 0.4))
    found["listed"][0]["path"], found["listed"][1]["batch"] = path, 0
    return samples.proposals_of(log_dirs=found | {"count": 24})


def test_the_page_says_how_full_log_dirs_may_get() -> None:
    page = render_file(planned(proposals=with_log_dirs())).replace("\N{NO-BREAK SPACE}", " ")
    assert "<dt>Fullest log dir meanwhile</dt>" in page
    assert "/var/lib/kafka/data1 of broker 5, 71 % expected, in nine of ten cases 78 % at most" in page
    assert "The 2 of 24 log dirs that may get fullest" in page
    assert ">364 GiB (71 %)</td>" in page
    assert ">before</td>" in page
    assert "&lt;script&gt;" in render_file(planned(proposals=with_log_dirs(samples.HOSTILE)))
    assert "<script>alert" not in render_file(planned(proposals=with_log_dirs(samples.HOSTILE)))


def test_the_highest_line_lies_below_the_edge_of_the_picture() -> None:
    flat = DiskCourse(1, 1000, ((0, 790, 790), (1, 790, 790), (2, 790, 790)))
    plot = disk_plot((flat,))
    assert plot is not None
    svg = base64.b64decode(plot.source.split(",")[1]).decode()
    assert ">80<" in svg  # the tick above 79 %


def test_the_page_sums_the_moves_up_and_says_what_no_plan_stays_below() -> None:
    page = render_file(planned())
    assert "21 moves take broker 1 from 91 % to 54 % of its disk" in page
    assert "no plan within 10 % copies less than 281 GiB (2 % above the bound)" in page
    assert "Limits by the racks: rack rack-1 has 2 of 6 brokers" in page


def test_what_comes_from_a_folder_is_escaped_in_groups_and_racks() -> None:
    groups = [{"text": samples.HOSTILE, "moves": 1, "bytes": 1}]
    proposals = samples.proposals_of(rack_limits=[samples.HOSTILE], groups=groups)
    assert "<script>alert" not in render_file(planned(proposals=proposals))


def test_a_run_without_groups_and_disks_has_a_page_all_the_same() -> None:
    page = render_file(planned(proposals=samples.proposals_of("groups", "rack_limits", "cross_rack_bytes"), disks={}))
    assert "Disks while it runs" not in page
    assert "Between racks" not in page


def test_a_disk_is_drawn_at_its_peak_during_a_batch_and_level_between() -> None:
    disk = DiskCourse(7, 100, ((0, 10, 10), (2, 50, 30), (3, 40, 40)))
    drawn = disk_plot([disk])
    assert drawn is not None
    assert "50 % full at most" in drawn.description
    assert drawn == disk_plot([disk])
    assert base64.b64decode(drawn.source.partition(",")[2]).startswith(b"<svg")
    assert disk.fullest == (50, 2)


@pytest.mark.parametrize(
    "disk", [DiskCourse(7, None, ((0, 1, 1), (2, 2, 2))), DiskCourse(7, 9, ((0, 1, 1), (1, 2, 2)))]
)
def test_a_disk_of_unknown_size_or_of_one_batch_has_no_picture(disk: DiskCourse) -> None:
    assert disk_plot([disk]) is None


def test_only_an_optimum_that_is_proven_is_called_so() -> None:
    proposals = samples.proposals()
    for proven, title in (
        (True, "Optimal (proven: no plan as near copies a thousandth less)"),
        (False, "Optimal"),
    ):
        proposals["candidates"][0] |= {"name": "optimal", "is_proven": proven}
        assert planned(proposals=proposals).candidates[0].title == title


@pytest.mark.parametrize(
    ("copied", "bound", "tolerance", "text"),
    [
        (
            4 * 2**30,
            2 * 2**30,
            None,
            "copies 4.00 GiB; no plan as even copies less than 2.00 GiB (100 % above the bound)",
        ),
        (2**30, 2**30, 0.05, "copies 1.00 GiB; no plan within 5 % copies less than 1.00 GiB (exactly the bound)"),
        (2**30, 0, 0.05, ""),
        (0, 0, 0.05, ""),
        (2**30, None, 0.05, ""),
    ],
)
def test_bytes_stand_beside_their_bound(copied: int, bound: int | None, tolerance: float | None, text: str) -> None:
    assert bound_in_words(copied, bound, tolerance) == text


GIB = 1024**3


def brokers(count: int, capacity: int | None = 100 * GIB) -> list[BrokerChange]:
    """The first is the fullest; all are even afterwards."""
    return [
        BrokerChange(number, None, capacity, Load(9, 3, (count - number) * GIB, None), Load(9, 3, 2 * GIB, None))
        for number in range(count)
    ]


def test_it_says_how_full_disks_are_before_and_after() -> None:
    plot = glance_plot(brokers(4))
    assert plot is not None
    assert (plot.title, plot.note) == ("Bytes on disk (GiB)", "Kafka fills at most 4 % of a disk now, 2 % afterwards")
    assert "before 1 to 4 GiB, after 2 to 2 GiB" in plot.description
    unknown = glance_plot(brokers(4, capacity=None))
    assert unknown is not None
    assert unknown.note == "capacities are not known"
    assert glance_plot([]) is None


def test_of_many_brokers_some_stand_for_all_and_the_picture_stays_small() -> None:
    few, many = glance_plot(brokers(100)), glance_plot(brokers(1000))
    assert few is not None
    assert many is not None
    assert len(many.svg()) <= 1.1 * len(few.svg())
    assert "1,000 brokers, fullest first" in many.svg()
    assert "before 1 to 1e+03 GiB" in many.description, "the words are of all"


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
