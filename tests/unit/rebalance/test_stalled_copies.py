"""What moves and since when: time in a phase, copies that stand, and what another watcher goes on from."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kafka_rebalance.moves.move_progress import Phase, partition_progress
from kafka_rebalance.rebalance.stalled_copies import (
    NEXT,
    Movement,
    Pair,
    anomalies,
    failed_log_dirs,
    grown,
    named,
    observe,
    recall,
    to_note,
)
from support.kafka.small_clusters import move, partition, tp, view

MOVES = [move("t-0", [1, 2], [2, 3]), move("t-1", [1, 2], [2, 4]), move("t-2", [1, 2], [2, 1])]
BEGUN = {"t-0": partition([2, 3, 1], [1, 2], 1), "t-1": partition([2, 4, 1], [1, 2], 1), "t-2": partition([1, 2])}
LISTED = {"t-0": [2, 3], "t-1": [2, 4], "t-2": [2, 1]}
TO_3, TO_4 = Pair(1, 3), Pair(1, 4)


def look(before: Any, now: Any, sizes: Any, partitions: Any = BEGUN, listed: Any = LISTED) -> Any:
    seen = view(partitions, reassigning=listed)
    told = zip(MOVES, (3, 4), sizes, strict=False)
    read = {one.topic_partition: {broker: size} for one, broker, size in told if size is not None}
    each = [partition_progress(one, seen, read) for one in MOVES]
    return observe(before, now, each, read), each


def looks(*sizes: Any, step: Any = 10.0) -> Any:
    movement, each = None, None
    for number, pair in enumerate(sizes):
        movement, each = look(movement, number * step, pair)
    return movement, each


def test_only_growing_bytes_are_progress() -> None:
    movement, _ = looks((10, 10), (20, 10), (20, 5), (20, 5))
    assert movement.standing(0) == {TO_3: 20, TO_4: 30}, "falling to 5 is neither progress nor a new beginning"
    movement, _ = looks((10, 10), (20, 10), (20, 5), (20, 6))
    assert movement.standing(0) == {TO_3: 20, TO_4: 0}, "growing again after a truncation is progress"


def test_one_pair_that_stands_while_another_moves_is_an_anomaly_and_no_stall() -> None:
    movement, each = looks(*((n, 7) for n in range(61)))
    assert movement.idle_seconds == 0
    found = anomalies(movement, each, planned_seconds=1000, standing_seconds=300)
    assert "Copies from broker 1 to 4 have not grown for 10 min" in found[TO_4]
    assert "ReplicaFetcherThread in the log of broker 4" in found[TO_4]
    assert TO_3 not in found


def test_a_pair_that_stood_while_another_moved_does_not_start_to_wait_when_that_is_done() -> None:
    movement, _ = looks(*((n, 7) for n in range(61)))
    done = {**BEGUN, "t-0": partition([2, 3]), "t-2": partition([2, 1])}
    movement, _ = look(movement, 610, (60, 7), done, {"t-1": [2, 4]})
    assert movement.idle_seconds == 610


def test_bytes_that_nobody_tells_do_not_count_as_standing_at_zero_nor_as_growth_when_they_are_told() -> None:
    movement, _ = looks((10, None), (20, None), (30, 5000))
    assert movement.standing(0) == {TO_3: 0, TO_4: 20}
    movement, _ = looks((10, 5), (20, None), (30, 6))
    assert movement.standing(0) == {TO_3: 0, TO_4: 0}


def test_phases_have_their_time_and_what_comes_next() -> None:
    movement, _ = looks((1, 1), (2, 2))
    movement, _ = look(movement, 15, (3, 3), {**BEGUN, "t-0": partition([2, 3, 1], [1, 2, 3], 1)})
    times = {str(tp): (str(phase), movement.seconds_in_phase(tp)) for tp, (phase, _) in movement.phases.items()}
    assert times == {"t-0": ("in_isr", 0), "t-1": ("copying", 15), "t-2": ("registered", 15)}
    assert set(NEXT) == set(Phase)


@pytest.mark.parametrize(
    ("name", "state", "words"),
    [
        ("t-2", partition([1, 2]), "t-2 has been registered for 5 min. The controller has not taken it up"),
        (
            "t-0",
            partition([2, 3, 1], [1, 2, 3], 1),
            "t-0 has been in the ISR for 5 min. Every copy is in sync, and the",
        ),
        ("t-0", partition([2, 3], [2, 3, 1], 2), "t-0 has been trimming for 5 min. The old replicas do not leave"),
        ("t-0", partition([2, 3, 1], [1, 2], 1), "t-0 has been copying for 5 min; the plan gives its batch 1 min"),
    ],
)
def test_a_phase_that_takes_minutes_instead_of_seconds_is_an_anomaly_with_a_remedy(
    name: str, state: Any, words: str
) -> None:
    movement = each = None
    for number in range(4):
        movement, each = look(movement, 100 * number, (number, number), {**BEGUN, name: state})
    texts = anomalies(movement, each, planned_seconds=60, standing_seconds=300).values()
    assert any(text.startswith(words) for text in texts), list(texts)
    assert not any(
        "t-1 has been copying" in t
        for t in anomalies(movement, each, planned_seconds=90, standing_seconds=300).values()
    )


def test_a_copy_that_is_overdue_names_the_leader_that_may_keep_it_out_of_the_isr() -> None:
    """Seen on 2.8.2: the controller died while a leader asked it for another ISR, and that leader never asked again."""
    movement = each = None
    for number in range(4):
        movement, each = look(movement, 100 * number, (number, number))
    texts = anomalies(movement, each, planned_seconds=60, standing_seconds=300).values()
    assert any("broker 1 leads it and does not add it to the ISR: restart that broker" in text for text in texts)


def test_a_controller_that_does_not_end_a_move_whose_copies_are_in_sync_has_to_give_way_to_another() -> None:
    """Seen on 3.9.2: ZooKeeper restarted, had the controller's ISR, and the controller never got the answer."""
    movement = each = None
    for number in range(4):
        movement, each = look(movement, 100 * number, (7, 7), {**BEGUN, "t-0": partition([2, 3, 1], [1, 2, 3], 1)})
    texts = anomalies(movement, each, planned_seconds=60, standing_seconds=300).values()
    assert any("start kafka_rebalance_cancel with action elect_controller" in text for text in texts)
    without = anomalies(movement, each, planned_seconds=60, standing_seconds=300, has_request_znode=False).values()
    assert any("does not end the move: see its log" in text for text in without)
    assert not any("elect_controller" in text for text in without), "no client can elect a controller there"


def test_the_slowest_and_the_odd_have_names() -> None:
    movement, each = looks((1, 1), (2, 2))
    movement, each = look(movement, 15, (3, 3), {**BEGUN, "t-0": partition([2, 3, 1], [1, 2, 3], 1)})
    assert [str(one.move.topic_partition) for one in named(movement, each, ())] == ["t-1", "t-2", "t-0"]
    odd = [MOVES[0].topic_partition]
    assert [str(one.move.topic_partition) for one in named(movement, each, odd, most=2)] == ["t-0", "t-1"]


def note_of(movement: Any) -> Any:
    return json.loads(json.dumps(to_note(movement, [one.topic_partition for one in MOVES])))


def test_another_watcher_goes_on_counting_where_nothing_has_moved() -> None:
    movement, _ = looks((10, 7), (20, 7), (20, 7))
    again, _ = look(None, 1000, (20, 7))
    recalled = recall(again, note_of(movement))
    assert recalled.standing(0) == {TO_3: 990, TO_4: 1000}
    assert recalled.idle_seconds == 990
    assert recalled.seconds_in_phase(MOVES[2].topic_partition) == 1000


def test_what_moved_while_nobody_watched_counts() -> None:
    movement, _ = looks((10, 7), (20, 7))
    moved, _ = look(None, 1000, (21, 7))
    assert recall(moved, note_of(movement)).idle_seconds == 0
    caught_up, _ = look(None, 1000, (20, 7), {**BEGUN, "t-2": partition([2, 1])}, {"t-0": [2, 3], "t-1": [2, 4]})
    assert recall(caught_up, note_of(movement)).changed_at == 1000


@pytest.mark.parametrize("note", [{}, {"pairs": 3}, {"pairs": [[1, 2]], "phases": [], "changed_at": 0, "counts": {}}])
def test_a_note_of_another_form_is_not_believed(note: Any) -> None:
    first, _ = look(None, 1000, (20, 7))
    assert recall(first, note) == first


@pytest.mark.parametrize(
    ("offline", "sizes", "words"),
    [
        ({5: ("/b",)}, {}, ""),  # it receives nothing of this batch
        ({3: ("/b",)}, {MOVES[0].topic_partition: {3: 7}}, "the 1 copies of the batch to it lie in other log dirs"),
        ({3: ("/a", "/b")}, {}, "lost the log dir /a, /b: 1 copies of the batch do not go on there (t-0)"),
    ],
)
def test_a_failed_log_dir_of_a_target_is_told_with_the_copies_that_lay_there(
    offline: Any, sizes: Any, words: str
) -> None:
    _, each = look(None, 0, (None, None))
    finding = failed_log_dirs(offline, each, sizes)
    text = "" if finding is None else finding.text
    assert bool(text) == bool(words)
    assert words in text


def test_copies_grow_by_what_was_read_at_both_looks() -> None:
    first, _ = look(None, 0.0, (10, None))
    second, _ = look(first, 10.0, (25, 7))
    third, _ = look(second, 20.0, (20, 9))
    assert grown(None, first, {}) == {}
    assert grown(first, second, {}) == {TO_3: 15}
    assert grown(second, third, {}) == {TO_3: 0, TO_4: 2}, "what is truncated does not count"


def test_small_copies_that_begin_and_end_between_two_looks_count_where_the_pair_goes_on() -> None:
    small, large, new = tp("small-0"), tp("large-0"), tp("new-0")
    copying = (Phase.COPYING, 0.0)
    before = Movement(
        0.0, {small: copying, large: copying}, {(small, TO_3): 5, (large, TO_4): 50}, {TO_3: 0, TO_4: 0}, 0
    )
    after = Movement(
        10.0, {new: copying, large: copying}, {(new, TO_3): 8, (large, TO_4): 60}, {TO_3: 10, TO_4: 10}, 10
    )
    assert grown(before, after, {small: {3: 30}}) == {TO_3: 25 + 8, TO_4: 10}
    over = replace(after, copies={(large, TO_4): 60}, pairs={TO_4: 10})
    assert grown(before, over, {small: {3: 30}}) == {TO_4: 10}, "nobody knows for how long the other pair copied"
    led_anew = replace(after, copies={(large, TO_4): 60, (small, Pair(2, 3)): 30}, pairs={TO_4: 10, Pair(2, 3): 10})
    had_both = replace(before, pairs={**before.pairs, Pair(2, 3): 0})
    assert grown(had_both, led_anew, {small: {3: 30}}) == {TO_4: 10}, "what another leader had sent is no growth"
