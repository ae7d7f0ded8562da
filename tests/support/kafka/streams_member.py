"""A member of a streams group (KIP-1071), by its own heartbeats: no library of Python's has one."""

from __future__ import annotations

import threading
import uuid
from types import TracebackType
from typing import Any, Self

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import FindCoordinatorRequest

from kafka_rebalance.admin.wire import Wire, open_wire
from kafka_rebalance.model.connection import KafkaConnection

_MESSAGES = "support.kafka.messages"
_LEAVES = -1
_SECONDS = 1.0


class StreamsGroupHeartbeatRequest(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    pass


class StreamsGroupHeartbeatResponse(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    pass


class StreamsMember:
    """`with StreamsMember(kafka, "group", "topic"):` a member whose topology reads this topic."""

    def __init__(self, kafka: KafkaConnection, group: str, topic: str) -> None:
        self._kafka, self._group, self._topic = kafka, group, topic
        self._member = str(uuid.uuid4())
        self._joined, self._ended = threading.Event(), threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._live)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._joined.wait(120), "the member of a streams group did not join"
        if self._problem is not None:
            raise self._problem
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _live(self) -> None:
        try:
            with open_wire(self._kafka) as wire:
                epoch = 0
                while not self._ended.is_set():
                    epoch = self._beat(wire, epoch)
                    self._joined.set()
                    self._ended.wait(_SECONDS)
                self._beat(wire, _LEAVES)
        except BaseException as failed:
            self._problem = failed
            self._joined.set()
            raise

    def _beat(self, wire: Wire, epoch: int) -> int:
        """The member's epoch as the coordinator says it."""
        joins = epoch == 0
        none: list[Any] = []
        request = StreamsGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member,
            member_epoch=epoch,
            endpoint_information_epoch=0,
            instance_id=None,
            rack_id=None,
            rebalance_timeout_ms=30_000 if joins else -1,
            topology=self._topology() if joins else None,
            active_tasks=none if joins else None,
            standby_tasks=none if joins else None,
            warmup_tasks=none if joins else None,
            process_id=self._member if joins else None,
            user_endpoint=None,
            client_tags=none if joins else None,
            task_offsets=None,
            task_end_offsets=None,
            shutdown_application=False,
        )
        answer = wire.read(request, self._coordinator(wire))
        assert not answer.error_code, f"{answer.error_code} {answer.error_message}"
        return int(answer.member_epoch)

    def _topology(self) -> Any:
        topology = StreamsGroupHeartbeatRequest.Topology
        return topology(
            epoch=0,
            subtopologies=[
                topology.Subtopology(
                    subtopology_id="0",
                    source_topics=[self._topic],
                    source_topic_regex=[],
                    state_changelog_topics=[],
                    repartition_sink_topics=[],
                    repartition_source_topics=[],
                    copartition_groups=[],
                )
            ],
        )

    def _coordinator(self, wire: Wire) -> int:
        answer = wire.read(FindCoordinatorRequest(key=self._group, key_type=0, coordinator_keys=[self._group]))
        return int(answer.coordinators[0].node_id)
