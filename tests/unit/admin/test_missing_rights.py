"""A denied write names every right that misses, and what it leaves in the cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.admin.missing_rights import with_all_missing
from kafka_rebalance.errors import ReadError, WriteDeniedError
from kafka_rebalance.kafka.topics import LOCK_TOPIC
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.run.retried_errors import telling_cluster_writes

DENIED = WriteDeniedError("Kafka refused the move: the Kafka user needs Alter on the cluster.")
ALTER, ALTER_CONFIGS, READ, WRITE = 7, 11, 3, 4


class Broker:
    """Tells which operations are allowed; a question to which it has no answer is not answered."""

    def __init__(self, of_cluster: set[int], **of_topics: set[int]) -> None:
        topics = [SimpleNamespace(name=name, authorized_operations=given) for name, given in of_topics.items()]
        self._answers = {
            "DescribeClusterRequest": SimpleNamespace(authorized_operations=of_cluster),
            "MetadataRequest": SimpleNamespace(topics=topics),
        }

    def read(self, request: Any, *_: Any, **__: Any) -> Any:
        answer = self._answers.get(type(request).__name__)
        if answer is None:
            raise ReadError("silent")
        return answer


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_rebalance.admin.missing_rights.read_topic_names", lambda _: {"orders", LOCK_TOPIC})


def told(broker: Any) -> str:
    return str(with_all_missing(broker, DENIED))


def test_every_right_that_misses_is_named_beside_the_one_that_was_needed_first() -> None:
    lock = {LOCK_TOPIC: {READ, ALTER_CONFIGS}}
    said = told(Broker({ALTER_CONFIGS}, orders=set(), **lock))
    assert said.startswith(f"{DENIED} In all, a rebalance lacks here: the cluster: the Kafka user lacks Alter,")
    assert "all topics (not on orders): the Kafka user lacks AlterConfigs" in said
    assert f"topic {LOCK_TOPIC}: the Kafka user lacks Write" in said
    assert "lacks Read" not in said
    assert "lacks AlterConfigs, to set the rates" not in said


def test_where_rights_cannot_be_read_or_none_misses_by_now_the_error_stays_as_it_is() -> None:
    every = {READ, WRITE, ALTER_CONFIGS}
    assert with_all_missing(Broker({ALTER, ALTER_CONFIGS}, orders=every, **{LOCK_TOPIC: every}), DENIED) is DENIED  # type: ignore[arg-type]
    silent = Broker(set())
    silent._answers.clear()
    assert with_all_missing(silent, DENIED) is DENIED  # type: ignore[arg-type]


def test_a_denied_write_says_what_this_try_has_left_in_the_cluster() -> None:
    def denied_after_two_writes() -> None:
        note(Kind.LOCK_TAKEN, "")
        note(Kind.CONFIG, "brokers/1")
        raise DENIED

    with pytest.raises(WriteDeniedError) as after, telling_cluster_writes():
        denied_after_two_writes()
    assert "taken the cluster's lock" in str(after.value)
    assert "changed the throttle or config of brokers/1" in str(after.value)
