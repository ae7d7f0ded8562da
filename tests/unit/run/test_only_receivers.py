"""Before the first write: approved moves against the settings that say who alone receives replicas."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.run.checks.drift import BrokerThen, check_only_receivers

BROKERS = {1: BrokerThen(1), 2: BrokerThen(2), 3: BrokerThen(3), 4: BrokerThen(4, held_replicas=False)}
MOVES = (
    Move(TopicPartition("orders", 0), (1, 2), (4, 2), 1),
    Move(TopicPartition("orders", 1), (1, 2), (2, 1), 1),  # only the order changes
    Move(TopicPartition("orders", 2), (1, 2), (1, 3), 1),
)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"brokers_in": [4]}, "orders-2 to broker 3, but by brokers_in only broker 4 may"),
        ({"brokers_in": [3]}, "orders-0 to broker 4, but by brokers_in only broker 3 may"),
        ({"brokers_in": "new"}, "orders-2 to broker 3, but by brokers_in only broker 4 may"),
    ],
)
def test_a_copy_to_another_broker_is_refused_with_the_setting(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        check_only_receivers(MOVES, Settings.from_mapping(asked), BROKERS)
    assert words in str(refused.value)
    assert "Do not trust the plan's files" in str(refused.value)


@pytest.mark.parametrize("asked", [{}, {"brokers_out": [3]}, {"brokers_in": [3, 4]}])
def test_what_the_settings_allow_passes(asked: dict[str, Any]) -> None:
    check_only_receivers(MOVES, Settings.from_mapping(asked), BROKERS)


def test_new_orders_and_copies_to_empty_brokers_pass_where_new_brokers_receive() -> None:
    check_only_receivers(MOVES[:2], Settings(brokers_in="new"), BROKERS)
