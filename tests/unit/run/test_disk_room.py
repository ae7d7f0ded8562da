"""Room on disks: a broker as a whole, by its capacity and headroom, and each of its log dirs."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.model.candidate import Batch
from kafka_rebalance.run.checks.disk_room import DiskNow, LogDirNow, ReplicasNow, without_room
from support.kafka.small_clusters import move, tp

GB = 10**9


def found(
    batches: Any, disks: Any, sizes: Any = None, lying: Any = None, paths: Any = None, headroom: Any = 0.1
) -> Any:
    numbered = [Batch(number, tuple(moves), "digest") for number, moves in enumerate(batches, 1)]
    return list(without_room(numbered, ReplicasNow(sizes or {}, lying or {}, paths or {}), disks, headroom))


def copies(count: Any, size: Any = GB, start: Any = 0) -> Any:
    return [move(f"t-{number}", [1, 2], [1, 3], size=size) for number in range(start, start + count)]


# --- brokers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "capacity", "approved", "full"),
    [
        (5 * GB, 10 * GB, 0, False),  # 90 %, and no byte more
        (5 * GB + 1, 10 * GB, 0, True),
        (50 * GB, None, 0, False),  # nobody knows how large it is
        (5.4 * GB, 10 * GB, 9.4 * GB, False),  # the approver has read 94 %
        (5.49 * GB, 10 * GB, 9.4 * GB, False),  # a little was written since
        (5.6 * GB, 10 * GB, 9.4 * GB, True),
        (7 * GB, 10 * GB, 20 * GB, True),  # nobody approves more than the disk has
    ],
)
def test_a_disk_is_filled_to_its_headroom_or_to_what_was_approved(
    used: Any, capacity: Any, approved: Any, full: bool
) -> None:
    disk = DiskNow(used_bytes=int(used), capacity_bytes=capacity, approved_peak_bytes=int(approved))
    findings = found([copies(4)], {3: disk})
    assert [one.subject for one in findings] == ["broker 3"] * full


def test_a_batch_has_the_room_that_the_one_before_it_makes() -> None:
    away = [move("a-0", [3, 2], [1, 2], size=5 * GB)]
    disks = {1: DiskNow(0, 10 * GB), 3: DiskNow(5 * GB, 10 * GB)}
    lying = {tp("a-0"): {3: 5 * GB, 2: 5 * GB}}
    assert found([away, copies(8)], disks, lying=lying) == []
    findings = found([copies(8), away], disks, lying=lying)
    assert [str(one)[:10] for one in findings] == ["broker 3: "]
    assert "Batch 1 brings 7.45 GiB" in findings[0].problem


def test_what_was_copied_already_is_counted_once() -> None:
    lying = {tp(f"t-{number}"): {1: GB, 3: GB // 2} for number in range(4)}
    disks = {3: DiskNow(used_bytes=7 * GB, capacity_bytes=10 * GB)}
    sizes = {tp(f"t-{number}"): GB for number in range(4)}
    assert found([copies(4)], disks, sizes, lying) == []
    assert found([copies(4)], disks, sizes) != []
    there = {tp_: {1: GB, 3: GB} for tp_ in lying}
    assert found([copies(4)], {3: DiskNow(11 * GB, 10 * GB)}, sizes, there) == [], "nothing comes any more"


# --- log directories -----------------------------------------------------------------------------------------------


def dirs(*described: Any) -> Any:
    return DiskNow(0, log_dirs=[LogDirNow(f"/d{number}", *one) for number, one in enumerate(described)])


@pytest.mark.parametrize(
    ("described", "copies", "full"),
    [
        ([(10 * GB, 5)], [4, 4], []),
        ([(10 * GB, 5)], [6, 6], ["/d0"]),
        ([(None, 5)], [600], []),  # before 3.3 nobody knows
        # all go to the directory with the fewest, however full it is
        ([(1 * GB, 0), (100 * GB, 50)], [1, 1], ["/d0"]),
        ([(100 * GB, 0), (0, 50)], [1, 1], []),
        # one each, in whichever order
        ([(3 * GB, 7), (9 * GB, 7)], [3, 3], []),
        ([(3 * GB, 7), (9 * GB, 7)], [4, 3], ["/d0"]),
        # the first fills up to the second's count, then the last may go either way
        ([(9 * GB, 5), (1 * GB, 6)], [2, 2], ["/d1"]),
        ([(9 * GB, 4), (1 * GB, 6)], [2, 2], []),
    ],
)
def test_replicas_go_where_the_fewest_are_and_not_where_there_is_room(described: Any, copies: Any, full: Any) -> None:
    moves = [move(f"t-{number}", [1, 2], [1, 3]) for number in range(len(copies))]
    sizes = {tp(f"t-{number}"): size * GB for number, size in enumerate(copies)}
    findings = found([moves], {3: dirs(*described)}, sizes)
    assert [finding.problem.split()[2] for finding in findings] == full
    assert all(finding.subject == "broker 3" and "Make room there" in finding.remedy for finding in findings)


def test_the_plans_size_counts_where_the_size_now_is_not_known() -> None:
    assert found([copies(1, 2 * GB)], {3: dirs((GB, 0))}, {tp("t-0"): None})


def test_a_replica_that_is_there_already_fills_the_log_dir_that_it_lies_in() -> None:
    sizes, lying, paths = {tp("t-0"): 4 * GB}, {tp("t-0"): {1: 4 * GB, 3: GB}}, {tp("t-0"): {3: "/d1"}}
    assert found([copies(1)], {3: dirs((0, 0), (3 * GB, 9))}, sizes, lying, paths) == []
    assert found([copies(1)], {3: dirs((9 * GB, 0), (2 * GB, 9))}, sizes, lying, paths)[0].problem.split()[2] == "/d1"


def test_a_cordoned_log_dir_gets_nothing_so_the_others_get_all() -> None:
    dirs = [LogDirNow("/a", 2 * GB, 9), LogDirNow("/b", 9 * GB, 0, cordoned=True)]
    findings = found([copies(3)], {3: DiskNow(0, 100 * GB, log_dirs=dirs)})
    assert ["/a" in one.problem and "3 of 3 new replicas" in one.problem for one in findings] == [True]
    lies = {tp("t-0"): {3: "/b"}}
    assert found([copies(1)], {3: DiskNow(0, 100 * GB, log_dirs=dirs)}, paths=lies) == []  # it goes on where it lies


def test_a_log_directory_that_is_offline_stops_a_broker_that_receives() -> None:
    bad = DiskNow(0, log_dirs=[LogDirNow("/d0", GB, 0), LogDirNow("/bad", None, 0, online=False)])
    findings = found([copies(1, 1)], {3: bad})
    assert "log directory /bad is offline, and the broker is to receive 1 replicas" in findings[0].problem
    assert found([copies(1, 1)], {2: bad}) == [], "broker 2 sends alone"
    there, where = {tp("t-0"): {3: 1}}, {tp("t-0"): {3: "/d0"}}
    assert found([copies(1, 1)], {3: bad}, lying=there, paths=where) == [], "nothing comes any more"


# --- which batch, which figures ------------------------------------------------------------------------------------


def test_the_fullest_batch_is_named_and_the_first_of_equal_ones() -> None:
    """Broker 3 gets 9 GB, gives 4 back, and gets 4 again: both batches fill it alike."""
    first, again = copies(9), copies(4, start=20)
    back = [move(f"a-{number}", [3, 2], [1, 2], size=GB) for number in range(4)]
    lying = {one.topic_partition: {3: GB, 2: GB} for one in back}
    disks = {1: DiskNow(0, 90 * GB), 3: DiskNow(5 * GB, 14 * GB)}
    (finding,) = found([first, back, again], disks, lying=lying)
    assert "Batch 1 brings 8.38 GiB" in finding.problem


def test_a_later_batch_that_fills_it_less_does_not_take_the_place_of_the_fullest() -> None:
    back = [move(f"a-{number}", [3, 2], [1, 2], size=GB) for number in range(4)]
    lying = {one.topic_partition: {3: GB, 2: GB} for one in back}
    disks = {1: DiskNow(0, 90 * GB), 3: DiskNow(5 * GB, 10 * GB)}
    (finding,) = found([copies(9), back, copies(2, start=20)], disks, lying=lying)
    assert "Batch 1 brings 8.38 GiB" in finding.problem


def test_a_full_disk_is_told_with_its_figures_and_what_to_do() -> None:
    (finding,) = found([copies(4)], {3: DiskNow(8 * GB, 10 * GB)})
    assert finding.problem == (
        "7.45 GiB of 9.31 GiB on its disks are in use today. Batch 1 brings 3.73 GiB and would fill them to 120 %. "
        "The approved plan allows 90 %"
    )
    assert finding.remedy.startswith("Start a new Dag run, which plans with the bytes of today.")


def test_one_byte_too_much_is_found_on_the_smallest_disk() -> None:
    assert found([copies(1, 1)], {3: DiskNow(0, 1)}) != []


def test_bytes_that_still_come_to_one_log_dir_are_added_up() -> None:
    sizes = {tp("t-0"): 3 * GB, tp("t-1"): 3 * GB}
    lying = {tp_: {1: 3 * GB, 3: GB} for tp_ in sizes}
    paths = {tp_: {3: "/d0"} for tp_ in sizes}
    assert found([copies(2)], {3: dirs((4 * GB, 1))}, sizes, lying, paths) == []
    assert found([copies(2)], {3: dirs((4 * GB - 1, 1))}, sizes, lying, paths) != []


def test_a_last_byte_that_comes_to_a_broken_disk_is_found() -> None:
    bad = DiskNow(0, log_dirs=[LogDirNow("/bad", None, 0, online=False)])
    there, where = {tp("t-0"): {3: GB - 1}}, {tp("t-0"): {3: "/bad"}}
    (finding,) = found([copies(1)], {3: bad}, {tp("t-0"): GB}, there, where)
    assert finding.subject == "broker 3"
    assert finding.remedy == "Repair the disk and restart the broker, then clear this task"


def test_a_disk_without_any_capacity_has_no_room() -> None:
    (finding,) = found([copies(1, 1)], {3: DiskNow(0, 0)})
    assert finding.problem.endswith("would fill them to 100 %. The approved plan allows 0 %")
