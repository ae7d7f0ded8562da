"""Where one move stands, over the forms in which 2.0, 2.4 and 2.8 and later write a topic's znode."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.model.partition import PartitionState, PartitionView
from kafka_rebalance.moves.move_stage import Stage, cancelled_order, headed_elsewhere, marks_moves, stage_in, stage_of
from kafka_rebalance.zookeeper.znodes import decode_topic
from support.kafka.controller_steps import steps
from support.kafka.small_clusters import move, partition, view

FORMS: dict[str, dict[str, Any]] = {
    "2.0": {"version": 1},
    "2.4": {"version": 2},
    "2.8": {"version": 3, "topic_id": "AAAAAAAAAAAAAAAAAAAAAA"},
}
MARKING = ["2.4", "2.8"]
ALL = ["2.0", *MARKING]


def znode(
    form: Any, replicas: Any, isr: Any = None, *, adding: Any = (), removing: Any = (), marks: Any = None
) -> PartitionView:
    """A partition as it is read from a topic's znode of that form."""
    document = {**FORMS[form], "partitions": {"0": list(replicas)}}
    if form != "2.0":
        document |= {
            "adding_replicas": {"0": list(adding)} if adding else {},
            "removing_replicas": {"0": list(removing)} if removing else {},
        }
    found = decode_topic(json.dumps(document).encode())
    in_sync = tuple(replicas if isr is None else isr)
    return PartitionView(
        found.partitions[0],
        found.adding.get(0, ()),
        found.removing.get(0, ()),
        1,
        10,
        found.topic_id,
        PartitionState(in_sync[0], 0, in_sync),
        found.marks_moves,
    )


def stage(before: Any, after: Any, now: Any, requested: Any = None) -> Any:
    return stage_of(move("t-0", before, after), now, requested and tuple(requested), is_marked=marks_moves(now))


# (forms, before, after, list now, what else, request, stage)
TABLE = [
    (ALL, [1, 2], [2, 3], [1, 2], {}, None, "untouched"),
    (ALL, [1, 2], [2, 3], [1, 2], {}, [2, 3], "requested"),
    (ALL, [1, 2], [2, 3], [2, 3], {}, [2, 3], "ending"),
    (ALL, [1, 2], [2, 3], [2, 3], {}, None, "done"),
    (ALL, [1, 2], [2, 3], [2, 3], {"isr": [2]}, None, "done"),  # who is in sync is for others to ask
    # under way: by the union in any order, or by marks
    (["2.0"], [1, 2], [2, 3], [2, 3, 1], {"isr": [1, 2]}, [2, 3], "running"),
    (["2.0"], [1, 2], [2, 3], [1, 3, 2], {"isr": [1, 2]}, [2, 3], "running"),
    (["2.0"], [1, 2, 3], [4, 5, 6], [5, 1, 6, 2, 3, 4], {}, [4, 5, 6], "running"),
    (["2.0"], [1, 2, 3], [3, 2], [1, 2, 3], {"isr": [2, 3]}, [3, 2], "running"),  # its list stays until the end
    (["2.0"], [1, 2, 3], [3, 2], [1, 2, 3], {}, [3, 2], "requested"),
    (MARKING, [1, 2], [2, 3], [2, 3, 1], {"adding": [3], "removing": [1]}, [2, 3], "running"),
    (MARKING, [1, 2], [2, 3], [2, 3, 1], {"adding": [3], "removing": [1]}, None, "running"),
    (MARKING, [1, 2, 3], [1, 2], [1, 2, 3], {"removing": [3]}, [1, 2], "running"),
    (MARKING, [1], [1, 2], [1, 2], {"adding": [2]}, None, "running"),
    # half-way, and no request names it: below 2.4 the controller may go on from memory
    (["2.0"], [1, 2], [2, 3], [2, 3, 1], {"isr": [1, 2]}, None, "unlisted"),
    (["2.0"], [1, 2], [1, 4], [1, 4, 2], {}, None, "unlisted"),
    (MARKING, [1, 2], [1, 4], [1, 4, 2], {}, None, "changed"),  # there the same list is final: somebody else's
    (MARKING, [1, 2], [1, 4], [1, 4, 2], {}, [1, 4], "requested"),  # and what is asked for has yet to begin
    # strangers that re-order: the brokers are those of both lists, and of no move of ours
    (ALL, [1, 2, 3], [3, 2, 1], [2, 1, 3], {}, None, "changed"),
    (ALL, [3, 2, 1], [1, 2, 3], [2, 1, 3], {}, None, "changed"),
    (ALL, [1, 2, 3], [3, 2], [2, 1, 3], {}, None, "changed"),
    (ALL, [1, 2], [2, 3], [3, 2], {}, None, "changed"),
    (ALL, [1, 2], [2, 3], [4, 5], {}, None, "changed"),
    # cancelled through the API: the original replicas, in the order of the interim list
    (ALL, [1, 2], [3, 2], [2, 1], {}, None, "taken_back"),
    (ALL, [1, 2, 3], [3, 4], [3, 1, 2], {}, None, "taken_back"),
    (ALL, [1, 2], [2, 1], [2, 1], {}, None, "done"),
    (ALL, [1, 2], [3, 2], [2, 1], {}, [3, 2], "requested"),  # and asked for again
    # on its way back
    (["2.0"], [1, 2], [2, 3], [2, 3, 1], {}, [1, 2], "returning"),
    (ALL, [1, 2], [2, 3], [1, 2], {}, [1, 2], "returning"),
    (MARKING, [1, 2], [2, 3], [1, 2, 3], {"removing": [3]}, None, "returning"),
    # sent elsewhere
    (ALL, [1, 2], [2, 3], [1, 2], {}, [4, 5], "sent_elsewhere"),
    (ALL, [1, 2], [2, 3], [2, 3], {}, [4, 5], "sent_elsewhere"),
    (MARKING, [1, 2], [2, 3], [4, 1, 2], {"adding": [4], "removing": [2]}, None, "sent_elsewhere"),
    (MARKING, [1, 2], [2, 3], [4, 1, 2], {"adding": [4], "removing": [2]}, [2, 3], "sent_elsewhere"),
    (MARKING, [1, 2], [2, 3], [2, 3, 1], {"adding": [3], "removing": [1]}, [4, 5], "sent_elsewhere"),
    (MARKING, [1, 2], [2, 3], [1, 2, 5], {"adding": [5]}, None, "sent_elsewhere"),
]
CASES = [(form, *row) for forms, *row in TABLE for form in forms]


@pytest.mark.parametrize(("form", "before", "after", "now", "more", "requested", "expected"), CASES)
def test_each_state_of_the_znodes_is_one_stage(
    form: Any, before: Any, after: Any, now: Any, more: Any, requested: Any, expected: Any
) -> None:
    assert stage(before, after, znode(form, now, **more), requested) == expected


def test_a_partition_that_does_not_exist_is_gone() -> None:
    assert stage_in(move("t-0", [1], [2]), view({})) is Stage.GONE


def test_a_cluster_that_marks_moves_is_known_without_a_znode() -> None:
    """As a cluster that is reached through the admin API alone, and whose moves no znode requests."""
    final = partition([1, 4, 2])
    assert stage_of(move("t-0", [1, 2], [1, 4]), final, None, is_marked=False) is Stage.UNLISTED
    assert stage_of(move("t-0", [1, 2], [1, 4]), final, None, is_marked=True) is Stage.CHANGED


def test_target_and_origin_of_what_is_in_motion_keep_their_order() -> None:
    now = znode("2.8", [4, 2, 5, 1, 3], adding=[4, 5], removing=[1, 3])
    assert (now.target, now.origin) == ((4, 2, 5), (2, 1, 3))
    still = znode("2.8", [3, 1])
    assert (still.target, still.origin, still.in_motion) == ((3, 1), (3, 1), False)


LISTS = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True)
PAIRS = st.tuples(LISTS, LISTS).filter(lambda pair: pair[0] != pair[1])


@given(PAIRS, st.sampled_from(ALL))
def test_the_stages_of_a_move_come_in_their_order_and_none_is_somebody_elses(pair: Any, form: Any) -> None:
    before, after = pair
    order = [Stage.UNTOUCHED, Stage.REQUESTED, Stage.RUNNING, Stage.ENDING, Stage.DONE]
    seen = [Stage.UNTOUCHED]
    for step in steps(before, after, marks=form != "2.0"):
        now = step.partition
        read = znode(form, now.replicas, now.isr, adding=now.adding, removing=now.removing)
        seen.append(stage(before, after, read, after if step.listed else None))
    places = [order.index(one) for one in seen]
    assert places == sorted(places)
    assert seen[-1] is Stage.DONE
    assert Stage.REQUESTED in seen


@pytest.mark.slow
@given(PAIRS, st.permutations([1, 2, 3, 4, 5, 6]), st.integers(1, 6), st.sampled_from(ALL))
def test_a_list_at_rest_is_a_step_of_the_move_only_where_it_can_be_one(
    pair: Any, order: Any, size: Any, form: Any
) -> None:
    before, after = pair
    now = tuple(order[:size])
    found = stage(before, after, znode(form, now))
    assert not found.is_in_flight, "nobody asks for anything, and nothing is marked"
    if now not in (tuple(before), tuple(after), cancelled_order(move("t-0", before, after))):
        half_way = form == "2.0" and set(now) == {*before, *after} != set(before)
        assert found is (Stage.UNLISTED if half_way else Stage.CHANGED)
        assert found is not Stage.UNLISTED or set(now) - set(before), "of a mere re-order nothing is seen half-way"


@given(PAIRS, LISTS, st.one_of(st.none(), LISTS), st.sampled_from(MARKING))
def test_what_goes_to_another_list_is_named_with_that_list(pair: Any, towards: Any, requested: Any, form: Any) -> None:
    before, after = pair
    one = move("t-0", before, after)
    adding = [broker for broker in towards if broker not in before]
    removing = [broker for broker in before if broker not in towards]
    now = znode(form, [*towards, *removing], before, adding=adding, removing=removing)
    found = stage(before, after, now, requested)
    elsewhere = headed_elsewhere(one, now, requested and tuple(requested))
    assert (found is Stage.SENT_ELSEWHERE) == (elsewhere is not None)
    if found is Stage.RUNNING:
        assert now.target == one.after


def test_a_move_that_is_asked_for_while_its_cancellation_ends_has_not_begun() -> None:
    """The marks lead back to the original list, and a request already names the approved one again."""
    returning = znode("2.8", [1, 2, 3], removing=[3])
    assert stage([1, 2], [2, 3], returning, [2, 3]) is Stage.REQUESTED


def test_an_election_is_untouched_until_its_leader_leads() -> None:
    elect = move("t-0", [1, 2], [1, 2])
    assert stage_in(elect, view({"t-0": partition([1, 2], leader=2)})) is Stage.UNTOUCHED
    assert stage_in(elect, view({"t-0": partition([1, 2], leader=1)})) is Stage.DONE


def test_whether_a_list_is_final_is_read_from_its_own_znode() -> None:
    one = move("t-0", [1, 2], [1, 4])
    assert stage_in(one, view({"t-0": partition([1, 4, 2], marks=True)})) is Stage.CHANGED
    assert stage_in(one, view({"t-0": partition([1, 4, 2], marks=False)})) is Stage.UNLISTED
