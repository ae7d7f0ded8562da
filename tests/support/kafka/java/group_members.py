"""Members of consumer groups of each type, by Kafka's own classes of a version that has them all."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

from support.kafka.java.kafka_classes import KafkaClasses

_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


class ShareMember:
    """`with ShareMember(classes, servers, "group", "topic"):` a member of a share group (KIP-932), which polls."""

    def __init__(self, classes: KafkaClasses, servers: str, group: str, topic: str) -> None:
        self._classes = classes
        self._settings = {"bootstrap.servers": servers, "group.id": group, "client.id": f"member-of-{group}"}
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _poll(self) -> None:
        """A consumer belongs to one thread, in Java too."""
        java = self._classes.jvm.java
        properties = java.util.Properties()
        for key, value in {**self._settings, "key.deserializer": _BYTES, "value.deserializer": _BYTES}.items():
            properties.put(key, value)
        consumer: Any = self._classes.class_of("org.apache.kafka.clients.consumer.KafkaShareConsumer")(properties)
        try:
            topics = java.util.ArrayList()
            topics.add(self._topic)
            consumer.subscribe(topics)
            while not self._ended.is_set():
                consumer.poll(java.time.Duration.ofMillis(200))
        finally:
            consumer.close()
