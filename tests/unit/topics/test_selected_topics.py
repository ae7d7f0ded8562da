"""The regular expression of `list` and `describe`, which a person types."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.topics import read
from kafka_rebalance.topics.rules import TopicRequest

NAMES = ("orders", "orders.eu", "payments", "a" * 60 + "-")
VIEW: Any = SimpleNamespace(partitions={TopicPartition(name, 0): None for name in NAMES}, deletions=frozenset({"old"}))


def selected(expression: str) -> list[str]:
    return read.selected_topics(TopicRequest.from_params({"action": "list", "topic": expression}), VIEW)


def test_a_name_is_matched_as_a_whole_and_a_comma_means_or() -> None:
    assert selected("orders") == ["orders"]
    assert selected(" orders.*,old ") == ["old", "orders", "orders.eu"]
    assert selected("") == sorted((*NAMES, "old"))
    assert selected("none") == []


@pytest.mark.parametrize("expression", ["(", "a{99999999999999}", "(?P<a>x)(?P<a>y)"])
def test_what_is_no_regular_expression_is_refused_in_words(expression: str) -> None:
    with pytest.raises(SettingsError, match="cannot be used as a regular expression"):
        selected(expression)


@pytest.mark.slow
def test_an_expression_that_tries_every_way_to_divide_a_name_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MATCHING_SECONDS", 1.0)
    with pytest.raises(SettingsError, match=r"has not been compared with 5 names within 1 s.*repetitions"):
        selected("(a+)+b")
