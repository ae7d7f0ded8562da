"""Brokers that receive replicas although the run's settings let only others do so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.finding import listed, some
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.run.checks.drift import BrokerThen


def check_only_receivers(moves: Iterable[Move], settings: Settings, brokers: Mapping[int, BrokerThen]) -> None:
    """Raises SettingsError if a move brings a replica to a broker that may not receive any.

    `brokers` are the snapshot's: what they say counts, and nothing that the planner has worked out.
    """
    if settings.receivers_setting is None:
        return
    if settings.new_brokers_only:
        receiving = {broker for broker, then in brokers.items() if not then.held_replicas}
    else:
        receiving = set(settings.brokers_in)
    wrong = [move for move in moves if not receiving.issuperset(move.added)]
    if wrong:
        others = sorted({broker for move in wrong for broker in move.added} - receiving)
        raise SettingsError(
            f"The approved plan brings {some([move.topic_partition for move in wrong])} to broker {listed(others)}, "
            f"but by {settings.receivers_setting} only broker {listed(sorted(receiving))} may receive replicas. "
            "Do not trust the plan's files or the planner: find out why, then "
            "start a new Dag run."
        )
