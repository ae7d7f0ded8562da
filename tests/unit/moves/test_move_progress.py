"""Phases of a move from ZooKeeper alone, on 2.0 and on 2.4+, and what they add up to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.model.partition import PartitionState
from kafka_rebalance.moves.move_progress import (
    MovesProgress,
    Phase,
    add_up,
    is_complete,
    partition_progress,
    progress_line,
)
from kafka_rebalance.rebalance.broker_traffic import Rate, Sample, rate_and_eta
from support.kafka.controller_steps import Step, steps
from support.kafka.small_clusters import move, partition, tp, view

A = "t-0"
MOVE = move(A, [1, 2], [2, 3])
LISTED = {A: [2, 3]}


def summarise(moves: Any, now: Any, sizes: Any = None, *, requested_through: Any = 10**6) -> MovesProgress:
    """All moves together; those of batches after `requested_through` were not requested."""
    return add_up([partition_progress(one, now, sizes, requested=one.batch <= requested_through) for one in moves])


def phase(
    state: Any, reassigning: Any = None, *, of: Any = MOVE, requested: Any = True, brokers: Any = (1, 2, 3, 4, 5, 6)
) -> Any:
    now = view({A: state} if state else {}, reassigning=reassigning, brokers=brokers)
    return partition_progress(of, now, requested=requested).phase


@pytest.mark.parametrize(
    ("state", "listed", "expected"),
    [
        # the transitions recorded from 2.0.1, t-0 [1,2] -> [2,3]
        (partition([1, 2]), True, "registered"),
        (partition([2, 3, 1], [1, 2], 1), True, "copying"),
        (partition([2, 3, 1], [1, 2, 3], 1), True, "in_isr"),
        (partition([2, 3, 1], [1, 2, 3], 2), True, "in_isr"),
        (partition([2, 3, 1], [2, 3], 2), True, "trimming"),
        (partition([2, 3], [2, 3], 2), True, "trimming"),
        (partition([2, 3], [2, 3], 2), False, "done"),
        # the same on 2.8.2, where the topic znode says what is added and removed
        (partition([2, 3, 1], [1, 2], 1, adding=[3], removing=[1]), True, "copying"),
        (partition([2, 3, 1], [1, 2, 3], 1, adding=[3], removing=[1]), True, "in_isr"),
        (partition([2, 3, 1], [3, 2], 2, adding=[3], removing=[1]), True, "trimming"),
        (partition([2, 3], [3, 2], 2), True, "trimming"),
        (partition([2, 3], [3, 2], 2), False, "done"),
        # znode gone is not success
        (partition([1, 2]), False, "refused"),
        (partition([2, 3], [2], 2), False, "copying"),
        (partition([2, 3], [2, 3, 1], 2), False, "trimming"),
        (partition([2, 3], [2, 3], 1), False, "trimming"),
        (partition([2, 3], [2, 3], -1), False, "trimming"),
        (partition([3, 2], [3, 2], 3), False, "refused"),  # the set is right, the order is not
        # somebody else's doing
        (partition([4, 5]), False, "refused"),
        (partition([1, 2], adding=[4], removing=[1]), True, "refused"),
        (partition([4, 1, 2], [1, 2], 1, adding=[4], removing=[2]), False, "refused"),
        (partition([3, 2, 1], [1, 2], 1, adding=[3], removing=[1]), False, "refused"),  # to [3, 2]
        (None, False, "refused"),
    ],
)
def test_each_state_of_a_move_has_its_phase(state: Any, listed: bool, expected: str) -> None:
    assert phase(state, LISTED if listed else None) == expected


@pytest.mark.parametrize(
    ("of", "state", "expected"),
    [
        # a larger replication factor on 2.0: the union is already the target, in order
        (move(A, [1], [1, 2]), partition([1, 2], [1], 1), "copying"),
        (move(A, [1], [1, 2]), partition([1, 2], [1, 2], 1), "trimming"),
        # a smaller one: 2.0 leaves the list alone until the end
        (move(A, [1, 2, 3], [3, 2]), partition([1, 2, 3], [1, 2, 3], 1), "registered"),
        (move(A, [1, 2, 3], [3, 2]), partition([1, 2, 3], [2, 3], 3), "trimming"),
        # 2.4+ writes target and rest, here in the very order of before
        (move(A, [1, 2, 3], [1, 2]), partition([1, 2, 3], [1, 2, 3], 1, removing=[3]), "in_isr"),
        # only the order changes
        (move(A, [2, 1], [1, 2]), partition([2, 1], [2, 1], 2), "registered"),
        (move(A, [2, 1], [1, 2]), partition([1, 2], [2, 1], 2), "trimming"),
        # five brokers and more: 2.0's union is in hash order, as recorded
        (move(A, [1, 2, 3], [4, 5, 6]), partition([5, 1, 6, 2, 3, 4], [1, 2, 3], 1), "copying"),
        (move(A, [1, 2, 3], [4, 5, 6]), partition([5, 1, 6, 2, 3, 4], [1, 2, 3, 4, 5, 6], 1), "in_isr"),
    ],
)
def test_interim_lists_are_not_mistaken(of: Any, state: Any, expected: str) -> None:
    assert phase(state, {A: list(of.after)}, of=of) == expected


def test_a_reordered_partition_is_done_while_another_replica_still_leads() -> None:
    assert phase(partition([1, 2], [2, 1], 2), of=move(A, [2, 1], [1, 2])) == "done"


def test_a_move_that_was_not_requested_is_queued_and_waits_for_nobody() -> None:
    now = view({A: partition([1, 2])}, brokers=(1, 2))
    progress = partition_progress(MOVE, now, requested=False)
    assert (progress.phase, progress.dead_targets, progress.anomaly) == ("queued", (), None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"reassigning": LISTED},
        {"reassigning": {}, "state": partition([2, 3], [2], 2)},
        {"state": partition([2, 3], [2, 3], 2, removing=[1])},
        {"state": partition([2, 3], [2, 3], 2, adding=[3])},
        {"state": partition([3, 2])},
        {"state": partition([2, 3], [2], 2)},
        {"state": partition([2, 3], [2, 3, 1], 2)},
        {"state": partition([2, 3], [2, 3], 1)},
        {"state": partition([2, 3], [2, 3], -1)},
        {"brokers": (1, 3, 4)},
    ],
)
def test_every_criterion_of_completion_counts(wrong: Any) -> None:
    right: dict[str, Any] = {"state": partition([2, 3]), "reassigning": None, "brokers": (1, 2, 3, 4)}
    for given_, expected in ((right, True), (right | wrong, False)):
        now = view({A: given_["state"]}, reassigning=given_["reassigning"], brokers=given_["brokers"])
        assert is_complete(MOVE, now) is expected


def test_a_dead_target_is_named_and_the_move_is_not_refused() -> None:
    now = view({A: partition([2, 3, 1], [1, 2], 1)}, reassigning=LISTED, brokers=(1, 2))
    progress = partition_progress(MOVE, now)
    assert (progress.phase, progress.dead_targets) == ("copying", (3,))
    total = summarise([MOVE], now)
    assert total.dead_targets == {3: 1}
    assert "Broker 3 is not registered" in total.anomalies["broker 3 is not registered"]


@pytest.mark.parametrize(
    ("state", "reassigning", "words"),
    [
        (partition([1, 2]), None, "the controller did not take it up"),
        (partition([4, 5]), None, "somebody else changed it"),
        (partition([1, 2]), {A: [4, 5]}, "somebody else is moving it"),
        (partition([2, 3, 1], [1, 2], 1), None, "no longer lists it"),
        (partition([2, 3, 1], [1, 2], -1), LISTED, "no live leader"),
        (None, None, "no longer exists: somebody deleted its topic"),
    ],
)
def test_what_is_wrong_is_said(state: Any, reassigning: Any, words: str) -> None:
    now = view({A: state} if state else {}, reassigning=reassigning)
    anomaly = partition_progress(MOVE, now).anomaly
    assert anomaly is not None
    assert anomaly.startswith(A)
    assert words in anomaly


def test_bytes_are_measured_against_the_leader_as_it_is_now() -> None:
    moving = move(A, [1, 2], [3, 4], size=100)
    now = view({A: partition([3, 4, 1, 2], [1, 2, 3], 1)}, reassigning={A: [3, 4]})
    sizes = {tp(A): {1: 150, 2: 150, 3: 140, 4: 30}}
    progress = partition_progress(moving, now, sizes)
    assert (progress.bytes_copied, progress.bytes_total) == (150 + 30, 300)  # 3 is in sync: complete, whatever its size


def test_a_new_replica_that_leads_does_not_shrink_what_there_was_to_copy_by_a_size_read_before() -> None:
    # The sizes were last read while both copies grew; since then 3 leads, and 1 and 2 are gone.
    moving = move(A, [1, 2], [3, 4], size=100)
    sizes = {tp(A): {1: 150, 2: 148, 3: 90, 4: 30}}
    for now in (
        view({A: partition([3, 4, 1, 2], [3, 4, 1, 2], 3)}, reassigning={A: [3, 4]}),
        view({A: partition([3, 4], [3, 4], 3)}),
    ):
        progress = partition_progress(moving, now, sizes)
        assert (progress.bytes_copied, progress.bytes_total) == (300, 300)
    later = {tp(A): {3: 160, 4: 160}}  # read again, when the old ones were gone
    assert partition_progress(moving, view({A: partition([3, 4], [3, 4], 3)}), later).bytes_total == 320


def test_bytes_without_sizes_come_from_the_snapshot_and_never_exceed_the_total() -> None:
    now = view({A: partition([2, 3, 1], [1, 2], 1)}, reassigning=LISTED)
    assert partition_progress(MOVE, now).bytes_copied == 0
    assert partition_progress(MOVE, now).bytes_total == 100
    more = partition_progress(MOVE, now, {tp(A): {1: 100, 3: 250}})
    assert (more.bytes_copied, more.bytes_total) == (100, 100)


def test_a_batch_adds_up() -> None:
    moves = [
        move("t-0", [1, 2], [2, 3]),
        move("t-1", [1, 2], [2, 3]),
        move("t-2", [1, 2], [2, 3]),
        move("t-3", [1, 2], [2, 1], batch=2),
    ]
    now = view(
        {
            "t-0": partition([2, 3]),
            "t-1": partition([2, 3, 1], [1, 2], 1),
            "t-2": partition([1, 2]),
            "t-3": partition([1, 2]),
        },
        reassigning={"t-1": [2, 3]},
    )
    total = summarise(moves, now, {tp("t-1"): {1: 100, 3: 25}}, requested_through=1)
    assert (total.partitions_done, total.partitions_total, total.finished) == (1, 4, False)
    assert (total.bytes_copied, total.bytes_total) == (125, 300)
    assert total.phases == {Phase.QUEUED: 1, Phase.COPYING: 1, Phase.DONE: 1, Phase.REFUSED: 1}
    assert total.refused == (tp("t-2"),)


def test_nothing_to_do_is_finished() -> None:
    assert summarise([], view({})).finished


@pytest.mark.parametrize(
    ("samples", "total", "expected"),
    [
        ([], 100, Rate(None, None)),
        ([Sample(0, 10)], 100, Rate(None, None)),
        ([Sample(0, 0), Sample(10, 100)], 400, Rate(10, 30)),
        ([Sample(0, 0), Sample(100, 0), Sample(110, 200)], 400, Rate(20, 10)),  # older than a minute does not count
        ([Sample(0, 300), Sample(10, 200)], 400, Rate(0, None)),  # a copy that was truncated
        ([Sample(0, 300), Sample(10, 300)], 400, Rate(0, None)),
        ([Sample(0, 300), Sample(10, 400)], 400, Rate(10, 0)),
        ([Sample(0, 300), Sample(10, 400)], 350, Rate(10, 0)),
    ],
)
def test_rate_and_time_left(samples: Any, total: int, expected: Any) -> None:
    assert rate_and_eta(samples, total) == expected


def test_the_log_line_says_how_far_and_how_long() -> None:
    moves = [move(f"t-{n}", [1, 2], [2, 3], size=100_000_000) for n in range(4)]
    now = view(
        {f"t-{n}": partition([2, 3]) if n < 1 else partition([2, 3, 1], [1, 2], 1) for n in range(4)},
        reassigning={f"t-{n}": [2, 3] for n in (1, 2, 3)},
    )
    sizes = {tp("t-1"): {1: 100_000_000, 3: 20_000_000}}
    progress = summarise(moves, now, sizes)
    line = progress_line(progress, *rate_and_eta([Sample(0, 0), Sample(12, 120_000_000)], progress.bytes_total))
    assert line == "1/4 partitions, 114 MiB of 381 MiB, 9.54 MiB/s, about 28 s left"


def test_the_log_line_of_a_reorder_speaks_of_no_bytes_and_names_dead_targets() -> None:
    moves = [move("t-0", [1, 2], [2, 1]), move("t-1", [1, 2], [2, 1])]
    now = view({"t-0": partition([2, 1]), "t-1": partition([1, 2])}, reassigning={"t-1": [2, 1]}, brokers=(1, 3))
    assert progress_line(summarise(moves, now), None, None) == "0/2 partitions, waiting for broker 2"


def test_the_log_line_tells_bytes_without_a_rate_and_what_was_refused_or_taken_back() -> None:
    moves = [move(f"t-{n}", [1, 2], [2, 3], size=1000) for n in range(3)]
    now = view({"t-0": partition([1, 2]), "t-1": partition([1, 2]), "t-2": partition([2, 3, 1], [1, 2], 1)})
    each = [partition_progress(one, now, begun=one is moves[1]) for one in moves]
    line = progress_line(add_up(each), None, None)
    assert line.startswith("0/3 partitions, 0 B of ")
    assert line.endswith(", 1 refused, 1 taken back")


@pytest.mark.parametrize(
    ("isr", "eligible", "words"),
    [
        ((5,), (), "Start the brokers of its ISR [5]."),
        ((), (6,), "Start one of the brokers that may lead it without a loss: [6]."),
        ((), (), "nobody tells who may lead it. Start its brokers [2, 3, 1]."),
    ],
)
def test_a_copy_without_a_live_leader_names_who_may_lead(
    isr: tuple[int, ...], eligible: tuple[int, ...], words: str
) -> None:
    state = replace(partition([2, 3, 1]), state=PartitionState(-1, 0, isr, eligible))
    anomaly = partition_progress(MOVE, view({A: state}, reassigning=LISTED)).anomaly
    assert anomaly is not None
    assert anomaly.endswith(words)


LISTS = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True)
ORDER = list(Phase)


@given(LISTS, LISTS, st.booleans())
def test_a_move_goes_through_its_phases_forward_and_is_done_only_at_the_end(
    before: Any, after: Any, marks: Any
) -> None:
    of = move(A, before, after)
    states = list(steps(before, after, marks=marks))
    seen = [phase(state, {A: after} if listed else None, of=of) for state, listed in states]
    ranks = [ORDER.index(one) for one in seen]
    assert ranks == sorted(ranks)
    assert seen[-1] is Phase.DONE
    assert Phase.DONE not in seen[:-1]
    assert Phase.REFUSED not in seen


@given(LISTS, LISTS, st.booleans(), st.lists(st.integers(1, 6), max_size=6, unique=True), st.data())
def test_done_means_the_criteria_whatever_znodes_say(before: Any, after: Any, listed: Any, isr: Any, data: Any) -> None:
    of = move(A, before, after)
    replicas = data.draw(st.one_of(st.just(before), st.just(after), LISTS))
    leader = data.draw(st.sampled_from([-1, *range(1, 7)]))
    marked = data.draw(LISTS | st.just([]))
    now = Step(partition(replicas, isr, leader, adding=marked), listed)
    alive = data.draw(st.sets(st.integers(1, 6)))
    done = phase(now.partition, {A: after} if listed else None, of=of, brokers=alive) is Phase.DONE
    may_lead = after[:1] if before == after else after  # a move of equal lists elects the first
    assert done == (
        not listed and not marked and replicas == after and set(isr) == set(after) and leader in set(may_lead) & alive
    )
