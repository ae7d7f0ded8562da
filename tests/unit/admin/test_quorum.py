"""Which broker is asked, with a wire that is simulated: what each broker has applied, and which have just gone away."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.metadata import ApiVersionsRequest

from kafka_rebalance.admin import quorum
from kafka_rebalance.admin.clients import ANOTHER_SECONDS
from kafka_rebalance.admin.quorum import fresh_broker, read_fresh, wait_for_own_configs
from kafka_rebalance.admin.wire import Fresh
from kafka_rebalance.errors import ReadError

END = 100  # the offset behind the last record of the controllers' log


class SimulatedWire:
    def __init__(self, applied: dict[int, int]) -> None:
        self.applied, self.away = applied, set[int]()
        self.fresh: Fresh | None = None
        self.asked: list[int | None] = []
        self.waited: list[float | None] = []

    def known_brokers(self) -> frozenset[int]:
        return frozenset(self.applied)

    def forget_fresh(self) -> None:
        self.fresh = None

    def read(
        self,
        request: Any,
        broker: int | None = None,
        *,
        repeat_seconds: float = 30.0,
        answer_seconds: float | None = None,
    ) -> Any:
        self.waited.append(answer_seconds)
        if isinstance(request, DescribeQuorumRequest):
            return self._quorum()
        if broker in self.away:
            raise ReadError(f"Broker {broker} cannot be read")
        if isinstance(request, ApiVersionsRequest):
            assert broker is not None
            return SimpleNamespace(finalized_features_epoch=self.applied[broker])
        self.asked.append(broker)
        return f"by {broker}"

    def _quorum(self) -> Any:
        node = lambda each: SimpleNamespace(replica_id=each, log_end_offset=END)  # noqa: E731
        one = SimpleNamespace(
            error_code=0, leader_id=9, leader_epoch=1, current_voters=[node(9)], observers=list(map(node, self.applied))
        )
        return SimpleNamespace(error_code=0, topics=[SimpleNamespace(partitions=[one])])


@pytest.fixture
def wire() -> Any:
    return SimulatedWire({1: END - 1, 2: END - 1, 3: END - 50})


def test_no_broker_that_stands_still_holds_up_a_read_that_another_one_answers(wire: Any) -> None:
    assert read_fresh(wire, "anything") in ("by 1", "by 2")
    of_quorum, *of_brokers = wire.waited
    assert of_quorum is None, "any broker answers: the wire's own limit"
    assert of_brokers
    assert all(seconds <= ANOTHER_SECONDS for seconds in of_brokers)


def test_a_broker_that_is_behind_is_not_asked(wire: Any) -> None:
    wire.away = {1}
    assert fresh_broker(wire) == 2


def test_if_the_broker_that_was_chosen_has_gone_away_another_one_is_asked(wire: Any) -> None:
    wire.fresh = Fresh(1, END - 1, time.monotonic())
    wire.away = {1}
    assert read_fresh(wire, "what", anew=False) == "by 2"
    assert wire.asked == [2]


def test_a_broker_that_is_silent_is_not_waited_for_until_its_session_ends(
    wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum, "_SILENT_SECONDS", 0.0)
    wire.away = {1}
    with pytest.raises(ReadError, match="Broker 1 does not answer, and its session has not ended yet"):
        fresh_broker(wire, 1)
    assert fresh_broker(wire, 2) == 2


def test_a_broker_is_done_with_an_image_when_it_shows_the_next_one(wire: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes over its own configs last, so the first look at its offset tells too little of them."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        wire.applied[len(pauses)] += 1

    monkeypatch.setattr(quorum, "time", SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pause))
    wait_for_own_configs(wire, [1, 2])
    assert wire.applied == {1: END, 2: END, 3: END - 50}


def test_where_the_controllers_write_nothing_more_the_wait_ends(wire: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(quorum, "time", SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append))
    wait_for_own_configs(wire, [1])
    assert sum(pauses) == pytest.approx(quorum._QUIET_SECONDS, abs=0.1)
