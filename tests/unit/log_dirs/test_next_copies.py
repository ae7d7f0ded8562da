"""Where a move between log dirs stands, which moves come next, and what nobody may plan on."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from kafka_rebalance.documents.log_dir_plan import LogDirMove, LogDirPlan, Replica
from kafka_rebalance.errors import StaleProposalError
from kafka_rebalance.log_dirs.next_copies import (
    CopyState,
    DirsNow,
    DiskOfDir,
    bytes_over,
    check_as_approved,
    next_moves,
    offline_dirs,
    state_of,
    states_of,
    without_room,
)

UNKNOWN = DiskOfDir()


def move(partition: int, size: int = 10, broker: int = 1) -> LogDirMove:
    return LogDirMove("t", partition, broker, "/a", "/b", size)


def now(
    paths: dict[int, str], future: dict[int, tuple[str, int]] | None = None, b: DiskOfDir = UNKNOWN, **sizes: int
) -> DirsNow:
    """Of broker 1, by partition; a replica has 10 bytes unless p0=… says otherwise."""
    return DirsNow(
        disks={1: {"/a": UNKNOWN, "/b": b, "/c": UNKNOWN}},
        paths={Replica("t", number, 1): path for number, path in paths.items()},
        sizes={Replica("t", number, 1): sizes.get(f"p{number}", 10) for number in paths},
        future={Replica("t", number, 1): coming for number, coming in (future or {}).items()},
    )


def plan(*moves: LogDirMove, copies: int = 2) -> LogDirPlan:
    return LogDirPlan("id", "drain", moves, 1000, copies, 0.1)


@pytest.mark.parametrize(
    ("path", "coming", "state"),
    [
        ("/a", None, CopyState.WAITING),
        ("/a", "/b", CopyState.COPYING),
        ("/b", None, CopyState.DONE),
        (None, None, CopyState.GONE),
        ("/c", None, CopyState.ELSEWHERE),
        ("/a", "/c", CopyState.ELSEWHERE),
        ("/b", "/c", CopyState.ELSEWHERE),
        ("/b", "/a", CopyState.ELSEWHERE),
        ("/c", "/b", CopyState.ELSEWHERE),
    ],
)
def test_a_move_stands_where_the_broker_shows_its_replica(path: Any, coming: Any, state: CopyState) -> None:
    found = now({} if path is None else {0: path}, {} if coming is None else {0: (coming, 3)})
    assert state_of(move(0), found) is state


def test_as_many_come_next_as_may_copy_at_once_in_the_plans_order() -> None:
    moves = [move(number) for number in (2, 0, 1, 3)]
    assert next_moves(plan(*moves), now(dict.fromkeys(range(4), "/a"))) == (moves[0], moves[1])
    found = now({0: "/a", 1: "/a", 2: "/b", 3: "/a"}, {0: ("/b", 1)})
    assert next_moves(plan(*moves), found) == (moves[2],)


def test_each_broker_has_copies_of_its_own() -> None:
    moves = [move(0), move(1), move(0, broker=2), move(1, broker=2)]
    found = DirsNow(
        disks={broker: {"/a": UNKNOWN, "/b": UNKNOWN} for broker in (1, 2)},
        paths={one.replica: "/a" for one in moves},
        sizes={one.replica: 10 for one in moves},
        future={},
    )
    assert next_moves(plan(*moves, copies=1), found) == (moves[0], moves[2])


def test_a_move_waits_until_its_disk_has_room_for_all_of_it_beside_the_copies_under_way() -> None:
    disk = DiskOfDir(total_bytes=1000, usable_bytes=125)  # 25 above the headroom
    paths = dict.fromkeys(range(3), "/a")
    assert next_moves(plan(move(0), move(1), move(2), copies=9), now(paths, b=disk)) == (move(0), move(1))
    assert next_moves(plan(move(0), move(1), copies=9), now(paths, {0: ("/b", 0)}, b=disk)) == (move(1),)
    full = replace(disk, usable_bytes=115)  # 15 above the headroom, of which a copy still takes 10 or 4
    assert next_moves(plan(move(0), move(1), copies=9), now(paths, {0: ("/b", 0)}, b=full)) == ()
    assert next_moves(plan(move(0), move(1), copies=9), now(paths, {0: ("/b", 6)}, b=full)) == (move(1),)


def test_the_size_of_today_decides_whether_a_replica_has_room() -> None:
    disk = DiskOfDir(total_bytes=1000, usable_bytes=125)
    assert next_moves(plan(move(0)), now({0: "/a"}, b=disk, p0=26)) == ()


def test_a_broker_on_which_nothing_copies_and_nothing_has_room_is_told() -> None:
    disk = DiskOfDir(total_bytes=1000, usable_bytes=105)
    found = now({0: "/a", 1: "/a"}, b=disk)
    (finding,) = without_room(plan(move(0), move(1)), found)
    assert finding.subject == "broker 1"
    assert "2 replicas wait" in finding.problem
    assert not list(without_room(plan(move(0), move(1)), now({0: "/a", 1: "/a"}, {0: ("/b", 10)}, b=disk)))
    assert not list(without_room(plan(move(0)), now({0: "/b"}, b=disk)))


def test_somebody_elses_move_stops_the_run_by_name() -> None:
    found = now({0: "/a", 1: "/c"})
    with pytest.raises(StaleProposalError, match="t-1 on broker 1"):
        check_as_approved(states_of([move(0), move(1)], found))
    check_as_approved(states_of([move(0)], found))


def test_a_log_dir_that_has_failed_is_told() -> None:
    failed = {1: {"/a": UNKNOWN, "/b": replace(UNKNOWN, online=False)}, 2: {"/a": UNKNOWN}}
    assert [one.subject for one in offline_dirs(failed)] == ["broker 1"]


def test_what_is_over_are_whole_replicas_and_the_copies_so_far() -> None:
    found = now({0: "/b", 1: "/a", 2: "/a"}, {1: ("/b", 4), 2: ("/b", 99)})
    assert bytes_over([move(0, 7), move(1), move(2), move(3, 5)], found) == 7 + 4 + 10 + 5


def test_nothing_is_requested_into_a_log_dir_that_was_cordoned_and_it_is_told() -> None:
    moves, lying = plan(move(0), move(1)), {0: "/a", 1: "/a"}
    shut = now(lying, b=DiskOfDir(cordoned=True))
    assert len(next_moves(moves, now(lying))) == 2
    assert next_moves(moves, shut) == ()
    assert [(one.subject, "is cordoned" in one.problem) for one in without_room(moves, shut)] == [("broker 1", True)]


LARGE_FIRST = plan(move(0, 500), move(1, 300), move(2, 100), copies=3)


def dirs(copied: int | None = None) -> DirsNow:
    """`copied`: bytes of the copy of partition 0 that is under way."""
    coming = {} if copied is None else {0: ("/b", copied)}
    return now(dict.fromkeys(range(3), "/a"), coming, p0=500, p1=300, p2=100)


def chosen_in(time: float, lying: DirsNow) -> list[int]:
    return [chosen.partition for chosen in next_moves(LARGE_FIRST, lying, time)]


def test_copies_of_one_broker_share_the_time_that_is_left_and_smaller_ones_pass_those_without_room() -> None:
    assert chosen_in(inf, dirs()) == [0, 1, 2]
    assert chosen_in(800, dirs()) == [0, 1]
    assert chosen_in(450, dirs()) == [1, 2]
    assert chosen_in(0, dirs()) == []


def test_what_is_left_of_a_copy_under_way_counts_and_what_it_has_copied_does_not() -> None:
    assert chosen_in(500, dirs(0)) == []
    assert chosen_in(500, dirs(400)) == [1, 2]
