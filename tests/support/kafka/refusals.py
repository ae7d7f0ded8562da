"""What Kafka's rules say to something: this project's, and Kafka's own where py4j calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from kafka_rebalance.errors import KafkaRuleError


def message_of(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Kafka's text of the refusal that the call must end in."""
    with pytest.raises(KafkaRuleError) as refused:
        call(*arguments, **options)
    return refused.value.kafka_message


def refusal(call: Callable[..., Any], *arguments: Any, **options: Any) -> str | None:
    """Kafka's text, or None where it was taken."""
    try:
        call(*arguments, **options)
    except KafkaRuleError as refused:
        return refused.kafka_message
    except Py4JJavaError as thrown:
        return str(thrown.java_exception.getMessage())
    return None
