"""Whose moves are in the way, as far as the cluster tells: a run announces its requests beside the lock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicPartition

# {partition: the run that has asked for its move, with its Airflow}; others are absent. Asked only if something moves.
WhoMoves: TypeAlias = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, str]]


def nobody_known(_: Collection[TopicPartition]) -> Mapping[TopicPartition, str]:
    return {}


def how_it_ends(moving: Collection[TopicPartition], who_moves: WhoMoves) -> str:
    """What to do about these moves of others."""
    known = who_moves(moving)
    if not known:
        return "Wait for its end, or cancel it with the tool that started it"
    runs = some(sorted(set(known.values())))
    rest = [tp for tp in moving if tp not in known]
    others = f". {some(sorted(rest))}: cancel that with the tool that started it" if rest else ""
    return f"It is of run {runs}: wait for its end, or cancel it there with kafka_rebalance_cancel{others}"
