"""kafka-python's client of one process of the model: the product's own `Wire` runs on it.

Each request that reads or writes something passes through the world, which may kill the process, lose the answer, or
let others act just before it takes effect. The broker closes a connection that has been idle for ten minutes, so the
request of a process that stood still for longer does not come.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol

from kafka.errors import KafkaConnectionError

from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.model.connection import KafkaConnection
from support.kraft_model.broker_answers import answer
from support.kraft_model.model_controller import ModelController

IDLE_SECONDS = 600.0  # connections.max.idle.ms
# A history is not told by how often somebody asks which broker is up to date.
OF_FRESHNESS = ("DescribeQuorumRequest", "ApiVersionsRequest")


class Around(Protocol):
    """The world, as a process meets it."""

    controller: ModelController
    seconds: float

    def request(self, process: Any, request: Any, act: Callable[[], Any]) -> Any: ...


def model_wire(kafka: KafkaConnection, world: Around, process: Any) -> Wire:
    """For this process; None: nothing happens to it."""
    client: Any = SimpleNamespace(_manager=_Manager(world, process))
    return Wire(kafka, client)


class _Manager:
    """What `Wire` calls of kafka-python."""

    def __init__(self, world: Around, process: Any) -> None:
        self._world, self._process = world, process
        self.cluster = SimpleNamespace(brokers=self._brokers, refresh_metadata=None, broker_metadata=lambda _: None)

    def _brokers(self) -> list[Any]:
        return [SimpleNamespace(node_id=broker) for broker in sorted(self._world.controller.image.racks)]

    def run(self, call: Any, *arguments: Any) -> Any:
        return self._sent(*arguments) if arguments else None

    def _sent(self, request: Any, broker: int | None, seconds: float = 30.0) -> Any:
        def act() -> Any:
            live = sorted(self._world.controller.live)
            to = live[0] if broker is None and live else broker
            if to not in live or self._world.seconds - sent_at > IDLE_SECONDS:
                raise KafkaConnectionError("nobody answers")
            return answer(self._world.controller, request, to)

        sent_at = self._world.seconds
        if self._process is None or type(request).__name__ in OF_FRESHNESS:
            return act()
        return self._world.request(self._process, request, act)
