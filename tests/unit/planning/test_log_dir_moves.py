"""Moves between the log dirs of one broker, held against an independent check and against every other plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.documents.log_dir_plan import LogDirMove, Replica
from kafka_rebalance.log_dirs.evened_dirs import Dir, DirMoves, emptied_dir, even_dirs


def dirs_of(*sizes: Sequence[int], total: int | None = None, usable: int | None = None) -> list[Dir]:
    """One log dir for each list of sizes: /a, /b, …"""
    numbers = iter(range(1000))
    return [
        Dir(f"/{'abcdef'[place]}", {Replica("t", next(numbers), 1): size for size in held}, total, usable)
        for place, held in enumerate(sizes)
    ]


def loads_after(dirs: Sequence[Dir], moves: Sequence[LogDirMove]) -> dict[str, int]:
    """Bytes by log dir; every move takes a replica that is there, with its size, once, to another log dir."""
    where = {replica: (one.path, size) for one in dirs for replica, size in one.replicas.items()}
    for replica in (move.replica for move in moves):
        assert [move.replica for move in moves].count(replica) == 1
    for move in moves:
        assert where[move.replica] == (move.before, move.size_bytes)
        assert move.after != move.before
        where[move.replica] = move.after, move.size_bytes
    return {one.path: sum(size for path, size in where.values() if path == one.path) for one in dirs}


def outside(loads: Mapping[str, int], weights: Mapping[str, float], tolerance: float) -> float:
    total, weight = sum(loads.values()), sum(weights.values())
    share = {path: total * one / weight for path, one in weights.items()}
    return sum(
        max(0.0, load - (1 + tolerance) * share[path], (1 - tolerance) * share[path] - load)
        for path, load in loads.items()
    )


sizes = st.lists(st.integers(0, 200), max_size=12)
some_dirs = st.lists(st.tuples(sizes, st.integers(1000, 4000), st.floats(0, 1), st.booleans()), min_size=2, max_size=4)


def drawn(parts: Sequence[tuple[list[int], int, float, bool]]) -> list[Dir]:
    numbers = iter(range(1000))
    found = []
    for place, (held, disk, fill, open_) in enumerate(parts):
        total = disk + sum(held)
        replicas = {Replica("t", next(numbers), 1): size for size in held}
        found.append(Dir(f"/{place}", replicas, total, int(disk * fill), open_))
    return found


def check_limits(dirs: Sequence[Dir], planned: DirMoves, headroom: float, kept: set[Replica]) -> None:
    """No disk gets beyond its headroom even if nothing is deleted meanwhile, and what is kept out stays."""
    for one in dirs:
        coming = sum(move.size_bytes for move in planned.moves if move.after == one.path)
        moved_in = [move for move in planned.moves if move.after == one.path]
        assert not moved_in or one.may_receive
        assert one.usable_bytes is not None
        assert one.total_bytes is not None
        assert not coming or one.usable_bytes - coming >= headroom * one.total_bytes - 1e-6
    assert not {move.replica for move in planned.moves} & kept


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(some_dirs, st.sampled_from([0.0, 0.05, 0.2]), st.sampled_from([0.0, 0.1]), st.data())
def test_a_balance_keeps_every_limit_and_says_what_it_leaves(
    parts: list[tuple[list[int], int, float, bool]], tolerance: float, headroom: float, data: st.DataObject
) -> None:
    dirs = drawn(parts)
    replicas = [replica for one in dirs for replica in one.replicas]
    kept = set(data.draw(st.lists(st.sampled_from(replicas), max_size=3))) if replicas else set()
    planned = even_dirs(dirs, tolerance, headroom, kept)
    check_limits(dirs, planned, headroom, kept)
    weights = {one.path: float(one.total_bytes or 0) for one in dirs}
    before = outside({one.path: one.size_bytes for one in dirs}, weights, tolerance)
    after = outside(loads_after(dirs, planned.moves), weights, tolerance)
    assert planned.left_bytes == pytest.approx(after, abs=1.01)
    assert after <= before
    if planned.moves:
        assert after < before
    if not planned.left_bytes:
        assert sum(move.size_bytes for move in planned.moves) >= planned.bound_bytes - 1
    assert planned == even_dirs(dirs, tolerance, headroom, kept)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(1, 40), max_size=3), min_size=2, max_size=3), st.sampled_from([0.1, 0.3]))
def test_no_assignment_that_is_even_copies_less_than_the_bound(held: list[list[int]], tolerance: float) -> None:
    dirs = dirs_of(*held)
    planned = even_dirs(dirs, tolerance, 0.1)
    replicas = [(one.path, size) for one in dirs for size in one.replicas.values()]
    weights = {one.path: 1.0 for one in dirs}
    for places in product(weights, repeat=len(replicas)):
        loads = dict.fromkeys(weights, 0)
        for (_, size), path in zip(replicas, places, strict=True):
            loads[path] += size
        if outside(loads, weights, tolerance) < 1e-6:
            copied = sum(size for (path, size), to in zip(replicas, places, strict=True) if path != to)
            assert copied >= planned.bound_bytes


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(some_dirs, st.sampled_from([0.0, 0.1]), st.data())
def test_a_drain_moves_all_that_has_room_and_says_what_it_leaves(
    parts: list[tuple[list[int], int, float, bool]], headroom: float, data: st.DataObject
) -> None:
    dirs = drawn(parts)
    kept = (
        set(data.draw(st.lists(st.sampled_from(sorted(dirs[0].replicas)), max_size=2))) if dirs[0].replicas else set()
    )
    planned = emptied_dir(dirs, "/0", headroom, kept)
    check_limits(dirs, planned, headroom, kept)
    assert {move.before for move in planned.moves} <= {"/0"}
    after = loads_after(dirs, planned.moves)
    assert after["/0"] == planned.left_bytes
    moved = {move.replica for move in planned.moves}
    for replica, size in dirs[0].replicas.items():
        if replica not in moved | kept:
            for one in dirs[1:]:
                coming = sum(move.size_bytes for move in planned.moves if move.after == one.path)
                assert not one.may_receive or size > one.room_bytes(headroom) - coming


def test_a_drain_takes_empty_replicas_too_and_evens_the_rest() -> None:
    planned = emptied_dir(dirs_of([50, 40, 0, 30, 20], [], [10]), "/a", 0.1)
    assert planned.left_bytes == 0
    assert planned.bound_bytes == 140
    assert len(planned.moves) == 5
    assert loads_after(dirs_of([50, 40, 0, 30, 20], [], [10]), planned.moves) == {"/a": 0, "/b": 80, "/c": 70}


def test_a_balance_takes_the_one_replica_that_is_as_large_as_what_is_too_much() -> None:
    planned = even_dirs(dirs_of([50, 30, 10, 110], [100]), 0.0, 0.1)
    assert [(move.size_bytes, move.before, move.after) for move in planned.moves] == [(50, "/a", "/b")]
    assert planned.bound_bytes == 50


def test_a_balance_takes_small_replicas_rather_than_a_large_one_that_goes_too_far() -> None:
    planned = even_dirs(dirs_of([60, 30, 10, 100], [100]), 0.0, 0.1)
    assert [move.size_bytes for move in planned.moves] == [30, 10]
    assert planned.left_bytes == 20


def test_log_dirs_within_the_band_stay_as_they_are() -> None:
    assert even_dirs(dirs_of([52, 50], [100]), 0.05, 0.1) == DirMoves()


def test_a_disk_of_twice_the_size_gets_twice_the_bytes() -> None:
    small, large = dirs_of([10] * 9, [])
    dirs = [Dir(small.path, small.replicas, 1000, 500), Dir(large.path, large.replicas, 2000, 2000)]
    assert loads_after(dirs, even_dirs(dirs, 0.0, 0.1).moves) == {"/a": 30, "/b": 60}


def test_where_one_log_dir_tells_no_capacity_all_shares_are_equal() -> None:
    small, large = dirs_of([10] * 8, [])
    dirs = [Dir(small.path, small.replicas, 1000, 500), Dir(large.path, large.replicas)]
    assert loads_after(dirs, even_dirs(dirs, 0.0, 0.1).moves) == {"/a": 40, "/b": 40}


def test_one_replica_that_fills_a_broker_stays() -> None:
    planned = even_dirs(dirs_of([100], []), 0.1, 0.1)
    assert planned.moves == ()
    assert planned.left_bytes == 90
    assert planned.bound_bytes == 45
