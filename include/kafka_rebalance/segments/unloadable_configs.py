"""Configs in ZooKeeper that brokers cannot load or ignore, and throttles that nobody needs any more.

Tools check what they write; people who write znodes by hand do not. Seen on brokers of 2.0.1, 2.8.2 and 3.9.2, while a
topic's value does not load:

- Running brokers keep the old value.
- A broker that is given a replica of the topic refuses it, and the controller then loses leader elections with it.
- A broker that starts does not come up.

Brokers ignore a name that they do not know. They ignore a broker's own value that does not load, and below 2.8 all
other values of its znode too.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_rebalance.documents.cluster_configs import ClusterConfigs
from kafka_rebalance.documents.segment_finding import Severity, segment_finding
from kafka_rebalance.documents.segments import SegmentFinding
from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.java_text import LONG_MAX
from kafka_rebalance.kafka.segment_roll import BROKER_KEYS, TOPIC_KEYS
from kafka_rebalance.kafka.throttles import LIST_KEYS, RATE_KEYS
from kafka_rebalance.kafka.topic_configs import check_topic_config, check_topic_config_names
from kafka_rebalance.model.configs import DEFAULT_BROKER, entity_of

UNLOADABLE, IGNORED, THROTTLE_LEFT = "unloadable", "ignored", "throttle_left"
# Brokers read the coarser forms, and their own settings, from server.properties alone.
_STATIC_ONLY = frozenset(
    key for key in BROKER_KEYS if key not in TOPIC_KEYS or key.endswith((".hours", ".minutes"))
)  # fmt: skip
_BROKER_NAMES = {topic_key: name for name, topic_key in reversed(TOPIC_KEYS.items()) if name not in _STATIC_ONLY}
_OWN_RULES: dict[str, Callable[[int], bool]] = {  # KafkaConfig asks for more than LogConfig
    "log.index.size.max.bytes": lambda value: value >= 4,
    "log.retention.ms": lambda value: value == -1 or value >= 1,
}
_REMOVE = "Remove it with kafka-configs, and set the name that was meant."
_CORRECT_TOPIC = (
    "Correct it with kafka-configs. Until then no broker can copy the topic, and no broker that has it can start."
)
_CORRECT_BROKER = "Correct it with kafka-configs. It does not apply, and below 2.8 nothing else of this znode does."
_SHOWN = 160  # characters of a value or message


def topic_config_problem(key: str, value: str, version: str) -> tuple[str, str] | None:
    """(rule, words) if `/config/topics/T` must not hold this; None if brokers of that version take it."""
    if key in TOPIC_KEYS:
        return IGNORED, f"{key} is a broker's name, which means nothing here; a topic's is {TOPIC_KEYS[key]}"
    try:
        check_topic_config_names([key], version=version)
    except KafkaRuleError:
        return IGNORED, f"{_shown(key)} is no topic config of Kafka {version}, so it means nothing"
    try:
        check_topic_config(key, value, version=version)
    except KafkaRuleError as refused:
        return UNLOADABLE, _shown(refused.kafka_message)
    return None


def broker_config_problem(key: str, value: str, version: str) -> tuple[str, str] | None:
    """The same for `/config/brokers/N`, for the keys that decide rolling, retention or throttles."""
    if key in _BROKER_NAMES:
        return IGNORED, f"{key} is a topic's name, which means nothing here; a broker's is {_BROKER_NAMES[key]}"
    if key in _STATIC_ONLY:
        return IGNORED, f"{key} is read from server.properties alone, so it means nothing here"
    if key in RATE_KEYS and not (value.strip().isdecimal() and int(value) <= LONG_MAX):
        return UNLOADABLE, f"Invalid value {_shown(value)} for configuration {key}: not whole bytes a second"
    if key in TOPIC_KEYS and topic_config_problem(TOPIC_KEYS[key], value, version):
        return UNLOADABLE, f"Invalid value {_shown(value)} for configuration {key}"
    if key in _OWN_RULES and not _OWN_RULES[key](int(value)):
        return UNLOADABLE, f"Invalid value {_shown(value)} for configuration {key}"
    return None


def stored_findings(configs: ClusterConfigs) -> tuple[SegmentFinding, ...]:
    """Every config of a topic or broker in ZooKeeper that brokers cannot load or ignore."""
    topics: dict[tuple[str, str], list[str]] = {}
    for topic, values in sorted(configs.topics.items()):
        for key, value in sorted(values.items()):
            if (problem := topic_config_problem(key, value, configs.version)) is not None:
                topics.setdefault(problem, []).append(topic)
    found = [
        _stored(rule, tuple(names), (), text, "/config/topics", _CORRECT_TOPIC)
        for (rule, text), names in topics.items()
    ]
    for broker, values in sorted(configs.dynamic.items()):
        brokers, source = () if broker == DEFAULT_BROKER else (broker,), f"/config/{entity_of(broker)}"
        for key, value in sorted(values.items()):
            if (problem := broker_config_problem(key, value, configs.version)) is not None:
                found.append(_stored(problem[0], (), brokers, problem[1], source, _CORRECT_BROKER))
    return tuple(found)


def _stored(
    rule: str, topics: tuple[str, ...], brokers: tuple[int, ...], text: str, source: str, correct: str
) -> SegmentFinding:
    severity: Severity = "error" if rule == UNLOADABLE else "warning"
    return segment_finding(rule, severity, topics, brokers, text, source, correct if rule == UNLOADABLE else _REMOVE)


def throttles_left(configs: ClusterConfigs) -> tuple[SegmentFinding, ...]:
    """Throttle keys that are set although nothing moves: they slow later catch-up, and nobody is told."""
    remedy = "Remove it with kafka-configs: it slows every later catch-up."
    if configs.lock_holder is not None:
        remedy = (
            f"The run {configs.lock_holder} holds the cluster and takes it back at its end. If that run is over, clear "
            "its task release_throttle."
        )
    found = []
    for key in LIST_KEYS:
        topics = tuple(sorted(topic for topic, values in configs.topics.items() if values.get(key)))
        if topics:
            text, source = f"{key} is set", "/config/topics"
            found.append(segment_finding(THROTTLE_LEFT, "warning", topics, (), text, source, remedy))
    on_brokers: dict[tuple[str, str], list[int]] = {}
    for broker, values in sorted(configs.dynamic.items()):
        for key in RATE_KEYS:
            if key in values:
                on_brokers.setdefault((key, values[key]), []).append(broker)
    for (key, value), brokers in on_brokers.items():
        named = tuple(broker for broker in brokers if broker != DEFAULT_BROKER)
        source = ", ".join(f"/config/{entity_of(broker)}" for broker in brokers[:3]) + (" …" if brokers[3:] else "")
        text = f"{key} is {_shown(value)}"
        found.append(segment_finding(THROTTLE_LEFT, "warning", (), named, text, source, remedy))
    return tuple(found)


def _shown(text: str) -> str:
    """Cut, and on one line: a person who writes znodes by hand can write anything."""
    text = "".join(character if character.isprintable() else " " for character in text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
