"""Whether Kafka elects preferred leaders by itself (`auto.leader.rebalance.enable`, on by default).

The controller does not while any reassignment runs (KafkaController.checkAndTriggerAutoLeaderRebalance, 2.0 to 3.9). So
it may do that before a batch, between two, and after the last. It then elects all partitions of a broker of which more
than `leader.imbalance.per.broker.percentage` are led elsewhere, whether our plan names them or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_rebalance.documents.snapshot import AutomaticElections

ENABLED, INTERVAL = "auto.leader.rebalance.enable", "leader.imbalance.check.interval.seconds"


def automatic_elections(configs: Mapping[Any, Mapping[str, tuple[str | None, str]]]) -> AutomaticElections:
    """By the brokers' effective configs, as read or as configs.json has them. A broker that does not report the setting
    has Kafka's default, which is to elect.
    """
    electing = {int(broker): values for broker, values in configs.items() if _value(values, ENABLED) != "false"}
    seconds = [text for values in electing.values() if (text := _value(values, INTERVAL)) and text.isdecimal()]
    return AutomaticElections(tuple(sorted(electing)), min(map(int, seconds), default=None))


def _value(values: Mapping[str, tuple[str | None, str]], key: str) -> str | None:
    return values.get(key, (None, ""))[0]
