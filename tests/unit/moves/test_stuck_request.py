"""How far a request in ZooKeeper is of each partition, and a request that the controller will never end."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.model.partition import PartitionView
from kafka_rebalance.moves.stuck_request import EntryState, entry_states, request_of_what_is_gone
from support.kafka.small_clusters import partition, tp, view

A = tp("orders-0")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (None, EntryState.GONE),
        (partition([1, 2]), EntryState.UNHEARD),
        (partition([3, 4]), EntryState.ENDED),
        (partition([3, 4], [3]), EntryState.MOVING),
        (partition([3, 4, 1, 2], [1, 2, 3], adding=[3, 4], removing=[1, 2]), EntryState.MOVING),
        (partition([3, 4, 1, 2], adding=[3, 4], removing=[1, 2]), EntryState.IN_SYNC),
        # Only below 2.4 the union of both lists is a move under way.
        (partition([3, 4, 1, 2]), EntryState.IN_SYNC),
        (partition([3, 4, 1, 2], marks=True), EntryState.UNHEARD),
    ],
)
def test_what_is_moving_is_told_from_what_does_not_end(state: PartitionView | None, expected: EntryState) -> None:
    shown = view({} if state is None else {"orders-0": state}, reassigning={"orders-0": [3, 4]})
    assert entry_states(shown) == {A: expected}


@pytest.mark.parametrize("again", [frozenset(), frozenset({A})])
def test_a_request_of_what_is_gone_is_told_with_who_has_to_act(again: frozenset[Any]) -> None:
    partitions = {"orders-0": partition([1, 2])} if again else {}
    shown = view(partitions, reassigning={"orders-0": [3, 4]}, requested_gone=frozenset({A}), requested_again=again)
    finding = request_of_what_is_gone(shown)
    assert finding is not None
    assert ("orders-0 to [3, 4]" in finding.remedy) == bool(again)
    assert entry_states(shown) == {A: EntryState.MADE_AGAIN if again else EntryState.GONE}
    assert request_of_what_is_gone(view({"orders-0": partition([1, 2])}, reassigning={"orders-0": [3, 4]})) is None
