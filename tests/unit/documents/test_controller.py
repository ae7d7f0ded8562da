"""What a snapshot keeps of the controller and of its queues."""

from __future__ import annotations

from kafka_rebalance.documents.snapshot import controller_document
from kafka_rebalance.model.cluster_view import ClusterView, Controller, SettledController
from kafka_rebalance.model.partition import TopicPartition


def test_the_controller_is_kept_with_what_it_has_to_do() -> None:
    elected = Controller(3, 7)
    view = ClusterView("c", elected, {}, {}, None, frozenset({TopicPartition("orders", 0)}), frozenset({"old"}))
    found = controller_document(view, SettledController(elected, (6, 7)))
    assert found is not None
    assert (found.broker, found.epoch, found.elections) == (3, 7, 1)
    assert (found.queued.elections.first, found.queued.deletions.first) == (("orders-0",), ("old",))


def test_without_a_controller_nothing_is_kept() -> None:
    nobody = ClusterView("c", None, {}, {}, None, None, frozenset())
    assert controller_document(nobody, SettledController(Controller(3, 7), (7, 7))) is None
