"""What a snapshot says of the controller."""

from __future__ import annotations

import dataclasses
from typing import Any

from kafka_rebalance.documents.snapshot import NAMES_SHOWN, Queue, controller_document
from kafka_rebalance.model.cluster_view import BrokerRegistration, ClusterView, Controller, Endpoint, SettledController
from support.documents.as_in_a_file import in_json
from support.kafka.small_clusters import partition, tp, view

SETTLED = SettledController(Controller(1, 7), (6, 7))
EMPTY = {"count": 0, "first": []}


def cluster(**changes: Any) -> ClusterView:
    return dataclasses.replace(
        view({"orders-0": partition([1, 2])}, controller=Controller(1, 7, 1_770_000_000_000)), **changes
    )


def test_it_says_who_is_controller_where_since_when_and_by_which_epochs_it_was_found_settled() -> None:
    endpoints = (Endpoint("", 9091), Endpoint("kafka-1.example", 9092))
    assert in_json(controller_document(cluster(brokers={1: BrokerRegistration(1, endpoints)}), SETTLED)) == {
        "broker": 1,
        "host": "kafka-1.example",
        "since": "2026-02-02T02:40:00+00:00",
        "epoch": 7,
        "kraft_epoch": -1,
        "epochs_read": [6, 7],
        "queued": {"reassignments": EMPTY, "elections": EMPTY, "deletions": EMPTY},
    }


def test_what_it_does_not_say_itself_is_none() -> None:
    document = controller_document(cluster(controller=Controller(1, 7)), SETTLED)
    assert document is not None
    assert (document.host, document.since) == (None, None)
    assert controller_document(cluster(controller=None), SETTLED) is None


def test_what_is_queued_is_counted_and_the_first_are_named() -> None:
    many = frozenset(tp(f"orders-{number}") for number in range(40))
    document = controller_document(cluster(elections=many, deletions=frozenset({"b", "a"})), SETTLED)
    assert document is not None
    assert document.queued.elections.count == 40
    assert document.queued.elections.first == tuple(f"orders-{number}" for number in range(NAMES_SHOWN))
    assert document.queued.deletions == Queue(2, ("a", "b"))


def test_reassignments_by_kafkas_own_api_are_queued_too() -> None:
    """They are in the topic znodes alone (2.4+)."""
    lists = {"orders-0": partition([1, 2]), "orders-1": partition([2, 3, 1], adding=[3], removing=[1])}
    document = controller_document(view(lists, reassigning={"orders-0": [2, 3]}), SETTLED)
    assert document is not None
    assert document.queued.reassignments == Queue(2, ("orders-0", "orders-1"))
