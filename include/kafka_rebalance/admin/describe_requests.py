"""Requests for groups that kafka-python does not have, from Kafka's own descriptions in `messages`."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage

_MESSAGES = "kafka_rebalance.admin.messages"  # kafka-python's stubs do not show that its classes take a package


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    """Groups whose coordinator assigns the partitions (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    pass


class ShareGroupDescribeRequest(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    """Groups that acknowledge each record (KIP-932)."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    pass


class StreamsGroupDescribeRequest(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    """Groups of Kafka Streams whose coordinator assigns the tasks (KIP-1071)."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    pass


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    """Where share groups stand. Their offsets are not among those that OffsetFetch gives."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=_MESSAGES):  # type: ignore[call-arg]
    pass
