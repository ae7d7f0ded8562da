"""What cancelling does to each partition, what is refused, and what has to be repeated word for word."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import ApprovalError, ArtifactError
from kafka_rebalance.moves.cancel_plan import (
    CancelPlan,
    CancelWay,
    Fate,
    Remaining,
    check_consent,
    out_of_order,
    plan_cancel,
    remaining,
)
from kafka_rebalance.moves.move_stage import cancelled_order
from kafka_rebalance.moves.rolling_requests import Limits
from kafka_rebalance.moves.run_position import position
from support.kafka.controller_steps import steps
from support.kafka.small_clusters import CLUSTER_ID, DIGEST, batches, move, partition, tp, view

MOVE = move("t-0", [1, 2], [3, 4])
COPYING = partition([3, 4, 1, 2], [1, 2], 1)
MARKED = partition([3, 4, 1, 2], [1, 2], 1, adding=[3, 4], removing=[1, 2])
ASKED = {"t-0": [3, 4]}
PLAN = CancelPlan("kafka_rebalance/one", CLUSTER_ID, DIGEST, CancelWay.ZNODE, (MOVE,))


def step(now: Any, way: Any = CancelWay.API, reassigning: Any = None, sizes: Any = None, **others: Any) -> Any:
    (found,) = plan_cancel([MOVE], view({"t-0": now}, reassigning=reassigning, **others), way, sizes)
    return found


@pytest.mark.parametrize(
    ("now", "reassigning", "way", "fate"),
    [
        (partition([1, 2]), None, CancelWay.API, Fate.QUEUED),
        (partition([1, 2]), ASKED, CancelWay.API, Fate.BACK),  # requested, not taken up yet
        (MARKED, ASKED, CancelWay.API, Fate.BACK),
        (MARKED, None, CancelWay.API, Fate.BACK),  # somebody deleted the znode: on 2.4+ that cancels nothing
        (partition([3, 4]), None, CancelWay.API, Fate.DONE),
        (partition([3, 4], [3]), None, CancelWay.API, Fate.DONE),  # over, though a replica fell out of sync since
        (partition([1, 2]), ASKED, CancelWay.ZNODE, Fate.BACK),
        (COPYING, ASKED, CancelWay.ZNODE, Fate.BACK),
        (COPYING, None, CancelWay.ZNODE, Fate.BACK),  # still in the controller's memory
        (partition([3, 4, 1, 2], [1, 2, 3], 1), ASKED, CancelWay.ZNODE, Fate.BACK),
        (partition([3, 4, 1, 2]), ASKED, CancelWay.ZNODE, Fate.ENDING),
        (partition([3, 4, 1, 2], [3, 4], 3), ASKED, CancelWay.ZNODE, Fate.ENDING),
        (partition([3, 4, 1, 2], [3, 4], 3, adding=[3, 4], removing=[1, 2]), ASKED, CancelWay.API, Fate.ENDING),
        (COPYING, {"t-0": [1, 2]}, CancelWay.ZNODE, Fate.RETURNING),
        (partition([1, 2], [1, 2, 3], 1), {"t-0": [1, 2]}, CancelWay.ZNODE, Fate.RETURNING),
        (partition([7, 8]), None, CancelWay.API, Fate.CHANGED),
        (COPYING, None, CancelWay.API, Fate.CHANGED),  # on 2.4+ nobody is moving it: a list like any other
        (MARKED, {"t-0": [2, 3]}, CancelWay.API, Fate.BLOCKED),
        (partition([2, 5, 1], [1, 2], 1, adding=[5], removing=[1]), None, CancelWay.API, Fate.BLOCKED),
    ],
)
def test_each_condition_of_a_partition_has_its_fate(now: Any, reassigning: Any, way: Any, fate: Any) -> None:
    assert step(now, way, reassigning).fate is fate


def test_a_partition_that_is_gone_is_left_alone() -> None:
    (found,) = plan_cancel([MOVE], view({}), CancelWay.API)
    assert (found.fate, found.note) == (Fate.CHANGED, "no longer exists")


@pytest.mark.parametrize("way", CancelWay)
def test_what_only_the_new_replicas_hold_is_never_thrown_away(way: Any) -> None:
    now = partition([3, 4, 1, 2], [3], 3, adding=[3, 4], removing=[1, 2])
    found = step(now if way is CancelWay.API else dataclasses.replace(now, adding=(), removing=()), way, ASKED)
    assert found.fate is Fate.BLOCKED
    assert "would lose what only [3] hold" in found.note


def test_an_original_replica_on_a_dead_broker_does_not_count_as_in_sync() -> None:
    """A broker that just died is in the ISR until its leader, or the controller, has taken it out."""
    assert step(MARKED, CancelWay.API, ASKED, brokers=(3, 4)).fate is Fate.BLOCKED


def test_below_2_4_all_original_replicas_must_be_in_sync_and_from_2_4_on_it_is_said() -> None:
    """The controller of 2.0 would wait for them, and go on with the copies it was to give up."""
    shrunk = partition([3, 4, 1, 2], [1], 1)
    old = step(shrunk, CancelWay.ZNODE, ASKED)
    assert old.fate is Fate.BLOCKED
    assert "original replicas [2] are not in sync" in old.note
    new = step(dataclasses.replace(shrunk, adding=(3, 4), removing=(1, 2)), CancelWay.API, ASKED)
    assert (new.fate, new.note) == (Fate.BACK, "goes back to 1 of 2 replicas in sync: [2] not")


def test_what_is_thrown_away_is_what_the_new_replicas_hold_by_now() -> None:
    sizes = {tp("t-0"): {1: 1000, 2: 1000, 3: 700, 4: 50}}
    assert step(MARKED, CancelWay.API, ASKED, sizes).bytes_thrown_away == 750
    in_sync = partition([3, 4, 1, 2], [1, 2, 3], 1, adding=[3, 4], removing=[1, 2])
    assert step(in_sync, CancelWay.API, ASKED, sizes).bytes_thrown_away == 1050  # whole, whatever its size says
    assert step(MARKED, CancelWay.API, ASKED).bytes_thrown_away == 0
    grown = {tp("t-0"): {1: 1000, 3: 1200, 4: 0}}  # not yet truncated to what the leader has
    assert step(MARKED, CancelWay.API, ASKED, grown).bytes_thrown_away == 1000


LISTS = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True)


@given(LISTS, LISTS, st.sampled_from(CancelWay))
def test_a_move_is_taken_back_at_any_step_at_which_its_originals_are_in_sync_and_at_no_other(
    before: Any, after: Any, way: Any
) -> None:
    one = move("t-0", before, after)
    for now, listed in steps(before, after, marks=way is CancelWay.API):
        there = view({"t-0": now}, brokers=range(1, 7), reassigning={"t-0": after} if listed else None)
        (found,) = plan_cancel([one], there, way)
        if found.fate is Fate.BACK:
            assert set(before) & set(now.isr)
            if way is CancelWay.ZNODE:
                assert set(before) <= set(now.isr)
                assert not set(after) <= set(now.isr)
        if found.fate in (Fate.DONE, Fate.QUEUED):
            assert not listed


@given(LISTS, LISTS)
def test_the_api_leaves_the_original_replicas_in_the_order_of_the_interim_list(before: Any, after: Any) -> None:
    one = move("t-0", before, after)
    assert sorted(cancelled_order(one)) == sorted(before)


def test_a_list_that_came_back_in_another_order_is_asked_for_as_recorded() -> None:
    one = move("t-0", [1, 2], [3, 2])
    assert cancelled_order(one) == (2, 1)
    (again,) = out_of_order([one], view({"t-0": partition([2, 1])}))
    assert (again.before, again.after) == ((2, 1), (1, 2))
    assert again.bytes_to_copy == 0
    still = partition([3, 2, 1], [1, 2], 1, adding=[3], removing=[1])
    for now, brokers in ((partition([1, 2]), (1, 2)), (still, (1, 2, 3)), (partition([2, 1]), (2, 3))):
        assert out_of_order([one], view({"t-0": now}, brokers=brokers)) == ()


@pytest.mark.parametrize(
    ("one", "now", "asked"),
    [
        (move("t-0", [1, 2, 3], [3, 2]), partition([3, 2, 1], removing=[1]), None),  # on its way to the approved list
        (move("t-0", [1, 2], [3, 2]), partition([2, 1]), {"t-0": [3, 2]}),  # requested again, and not yet taken up
        (move("t-0", [1, 2], [2, 1]), partition([2, 1]), None),  # in place, as it was approved
    ],
)
def test_no_order_is_asked_for_of_what_moves_or_is_in_place(one: Any, now: Any, asked: Any) -> None:
    assert cancelled_order(one) == now.replicas
    assert out_of_order([one], view({"t-0": now}, reassigning=asked)) == ()


def test_a_list_that_came_back_in_the_order_of_the_api_is_on_its_way_back() -> None:
    (found,) = plan_cancel([move("t-0", [1, 2], [3, 2])], view({"t-0": partition([2, 1])}), CancelWay.API)
    assert found.fate is Fate.RETURNING


def test_an_order_that_somebody_else_chose_is_left_as_it_is() -> None:
    one = move("t-0", [1, 2, 3], [4, 2, 3])
    assert out_of_order([one], view({"t-0": partition([3, 2, 1])})) == ()
    (found,) = plan_cancel([one], view({"t-0": partition([3, 2, 1])}), CancelWay.API)
    assert found.fate is Fate.CHANGED


# --- the plan and the consent ---


def test_a_plan_reads_back_under_the_same_digest() -> None:
    assert CancelPlan.from_mapping(PLAN.to_mapping()) == PLAN
    assert CancelPlan.from_mapping(PLAN.to_mapping()).digest == PLAN.digest


@pytest.mark.parametrize(
    "change",
    [
        {"run": "kafka_rebalance/two"},
        {"cluster_id": "another"},
        {"candidate_digest": "e" * 64},
        {"way": CancelWay.API},
        {"moves": (move("t-0", [1, 2], [4, 3]),)},
        {"moves": (move("t-0", [2, 1], [3, 4]),)},
    ],
)
def test_another_plan_has_another_digest(change: Any) -> None:
    assert dataclasses.replace(PLAN, **change).digest != PLAN.digest


@pytest.mark.parametrize("document", [{}, {**PLAN.to_mapping(), "moves": [1]}, {**PLAN.to_mapping(), "way": "by hand"}])
def test_a_plan_that_cannot_be_read_is_refused(document: Any) -> None:
    with pytest.raises(ArtifactError, match="The cancel plan cannot be read"):
        CancelPlan.from_mapping(document)


def test_the_consent_names_both_znodes_the_cluster_and_the_plan() -> None:
    for part in ("/admin/reassign_partitions", "/controller", CLUSTER_ID, PLAN.digest[:8]):
        assert part in PLAN.consent


@pytest.mark.parametrize("given", [None, "", "yes", PLAN.consent.upper(), PLAN.consent[:-1], PLAN.digest])
def test_consent_is_the_very_sentence_or_none_at_all(given: Any) -> None:
    with pytest.raises(ApprovalError, match="word for word"):
        check_consent(PLAN.consent, given)


def test_the_sentence_is_consent_and_from_2_4_on_none_is_needed() -> None:
    check_consent(PLAN.consent, f" {PLAN.consent}\n")
    for given_anyway in (None, "yes"):
        check_consent(dataclasses.replace(PLAN, way=CancelWay.API).consent, given_anyway)


# --- stopping ---


def test_what_a_stop_leaves_undone_is_everything_behind_the_batch_under_way() -> None:
    plan = batches(
        move("t-0", [1, 2], [3, 4], batch=1),
        move("t-1", [1, 2], [3, 4], batch=2),
        move("t-2", [1, 2], [3, 2], size=50, batch=3),
        move("t-3", [1, 2], [2, 1], batch=3),
    )
    now = view(
        {"t-0": partition([3, 4]), "t-1": MARKED, "t-2": partition([1, 2]), "t-3": partition([1, 2])},
        reassigning={"t-1": [3, 4]},
    )
    left = remaining(plan, position(plan, now, {tp("t-0"), tp("t-1")}, limits=Limits(2, 10, 10)))
    assert left == Remaining(2, (3,), 2, 50)
