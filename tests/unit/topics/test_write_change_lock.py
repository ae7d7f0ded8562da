"""The lock under which a topic is changed: its end never takes the place of the error that was first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.errors import KafkaRuleError, ReadError
from kafka_rebalance.run.approval_rules import Decision
from kafka_rebalance.topics import write


@pytest.fixture
def delete(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException | None, BaseException | None], Any]:
    """Deletes a topic. What fails is the deletion, and the end of the lock."""

    def act(of_delete: BaseException | None, of_release: BaseException | None) -> Any:
        def failing(error: BaseException | None) -> Callable[..., str]:
            def call(*_: object) -> str:
                if error is not None:
                    raise error
                return "created"

            return call

        change = SimpleNamespace(topic="orders", cluster_id="abc", action="delete", digest="d", new_partitions={})
        cluster = SimpleNamespace(
            read_view=lambda _: SimpleNamespace(brokers={}),
            check_same_cluster=lambda _: None,
            topics=SimpleNamespace(delete=failing(of_delete)),
            lock=SimpleNamespace(release=failing(of_release)),
        )
        approved = SimpleNamespace(plan=change, connection_id="prod", decision=Decision())
        deployment = SimpleNamespace(
            check_not_frozen=lambda _: None, check_policy_unchanged=lambda *_: None, read_connection=lambda _: None
        )
        for name, value in {
            "check_all_will_run": lambda *_: None,
            "_read_approved_change": lambda *_: approved,
            "open_cluster": lambda _: nullcontext(cluster),
            "check_approved_cluster": lambda *_: None,
            "lock_owner": lambda *_: None,
            "take_lock": lambda *_: None,
            "forget_lock": lambda *_: None,
            "_check_may_begin": lambda *_: None,
        }.items():
            monkeypatch.setattr(write, name, value)
        inputs: Any = SimpleNamespace(deployment=deployment, run=None)
        return write.write_change(inputs, {})

    return act


def test_a_refusal_stays_the_error_if_the_lock_cannot_be_given_back(delete: Any, caplog: Any) -> None:
    with pytest.raises(KafkaRuleError, match="Kafka refuses it"):
        delete(KafkaRuleError("Kafka refuses it."), ReadError("ZooKeeper is away."))
    assert "kafka_throttle_janitor does that" in caplog.text


def test_a_change_whose_lock_cannot_be_given_back_is_tried_again(delete: Any) -> None:
    with pytest.raises(ReadError, match="is away"):
        delete(None, ReadError("ZooKeeper is away."))
    assert delete(None, None) == {"written": "created"}
