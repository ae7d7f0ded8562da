"""Sets and removes throttles without ZooKeeper: rates on brokers, lists of replicas on topics.

A list is never written as a whole. Entries are added and taken out one by one, and the controller merges them, so that
what somebody else lists at the same moment stays (IncrementalAlterConfigs, KIP-339).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from functools import partial

from kafka.errors import for_code
from kafka.protocol.admin import IncrementalAlterConfigsRequest

from kafka_rebalance.admin.set_configs import BROKER, TOPIC, ask_broker, read_topic_configs
from kafka_rebalance.admin.wire import NOT_AUTHORIZED, Wire
from kafka_rebalance.errors import ConfigChangedError, WriteError
from kafka_rebalance.kafka.throttles import (
    EVERY_REPLICA,
    format_throttled_replicas,
    parse_throttled_replicas,
    throttle_problem,
)
from kafka_rebalance.model.cluster_writes import Kind, note


class _Do(IntEnum):
    """AlterConfigOp.OpType"""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_Change = tuple[str, _Do, str | None]
_Send = Callable[[Collection[_Change]], None]


def merge_config(
    wire: Wire,
    entity: str,
    changes: Mapping[str, str | None],
    *,
    decided_on: Mapping[str, str] | None,
    registered: Collection[int],
    bound: Callable[[], float],
) -> None:
    """See `OpenCluster.merge_config`. `registered` are the live brokers: only the broker itself takes its rate.

    `bound` is asked before each request for the time of `time.monotonic` after which it is not sent. Raises
    LockLostError then, ConfigChangedError if somebody has changed a rate since or has set `*`, and WriteError for what
    the encoder refuses, for a broker that is away and for a topic that does not exist.
    """
    problem = throttle_problem(entity, changes)
    if problem:
        raise WriteError(f"config of {entity}: {problem}. Nothing was written.")
    kind, _, name = entity.partition("/")
    if kind == "brokers" and int(name) not in registered:
        raise WriteError(f"{entity} is away, and only it can change its rate. Nothing was written. Start it.")
    now = _read(wire, kind, name)
    before = now if decided_on is None else decided_on
    send = partial(_send, wire, kind, name, bound)
    if kind == "brokers":
        _set_rates(send, entity, changes, before, now)
        return
    for key, value in sorted(changes.items()):
        _merge_list(send, entity, key, value, before.get(key), now.get(key))
        _set_letters(wire, send, name, key, value)


def _set_rates(
    send: _Send, entity: str, changes: Mapping[str, str | None], before: Mapping[str, str], now: Mapping[str, str]
) -> None:
    # A key that has the new value already may be our own write, whose answer was lost.
    others = sorted(key for key, new in changes.items() if now.get(key) not in (before.get(key), new))
    if others:
        raise _changed(entity, ", ".join(others))
    todo: list[_Change] = [
        (key, _Do.DELETE if value is None else _Do.SET, value)
        for key, value in sorted(changes.items())
        if now.get(key) != value
    ]
    send(todo)


def _merge_list(send: _Send, entity: str, key: str, wanted: str | None, before: str | None, now: str | None) -> None:
    if EVERY_REPLICA in (_entries(now, key), wanted) and now != wanted:
        if _entries(before, key) != _entries(now, key):
            raise _changed(entity, key)
        send([(key, _Do.DELETE if wanted is None else _Do.SET, wanted)])
        return
    had, has, want = (set(_listed(value, key)) for value in (before, now, wanted))
    added, taken_out = want - had - has, (had - want) & has
    # Two operations on one key in one request are refused.
    if added:
        send([(key, _Do.APPEND, _joined(added, wanted, key))])
    if taken_out:
        send([(key, _Do.SUBTRACT, _joined(taken_out, now, key))])


def _set_letters(wire: Wire, send: _Send, topic: str, key: str, wanted: str | None) -> None:
    """The last entry leaves an empty list behind, and a list that was written with blanks has none any more."""
    now = _read(wire, "topics", topic).get(key)
    if now == wanted or set(_listed(now, key)) != set(_listed(wanted, key)):
        return
    send([(key, _Do.DELETE if wanted is None else _Do.SET, wanted)])


def _entries(value: str | None, key: str) -> str | None:
    """`*`, or None for a list of single replicas."""
    return EVERY_REPLICA if value is not None and parse_throttled_replicas(value, key) == (EVERY_REPLICA,) else None


def _listed(value: str | None, key: str) -> tuple[str, ...]:
    return () if value is None else parse_throttled_replicas(value, key)


def _joined(entries: Collection[str], order: str | None, key: str) -> str:
    return format_throttled_replicas(one for one in _listed(order, key) if one in entries)


def _read(wire: Wire, kind: str, name: str) -> Mapping[str, str]:
    if kind == "brokers":
        return ask_broker(wire, int(name))
    return read_topic_configs(wire, [name])[name]


def _send(wire: Wire, kind: str, name: str, bound: Callable[[], float], todo: Collection[_Change]) -> None:
    if not todo:
        return
    entity, what = f"{kind}/{name}", f"the change of the throttle of {kind}/{name}"
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    operations = [resource.AlterableConfig(name=key, config_operation=int(do), value=value) for key, do, value in todo]
    of = resource(resource_type=BROKER if kind == "brokers" else TOPIC, resource_name=name, configs=operations)
    request = IncrementalAlterConfigsRequest(resources=[of], validate_only=False)
    # A broker takes its own config alone.
    to = int(name) if kind == "brokers" else None
    answer = wire.write(request, what, Kind.CONFIG, entity, broker=to, not_later_than=bound())
    (result,) = answer.responses
    if not result.error_code:
        note(Kind.CONFIG, entity)
        return
    said = result.error_message or for_code(result.error_code).__name__
    remedy = "Clear this task: it reads again"
    if result.error_code in NOT_AUTHORIZED:
        remedy = f"Grant the Kafka user AlterConfigs on {'the cluster' if kind == 'brokers' else 'the topics'}"
    raise WriteError(f"Kafka refused {what} ({for_code(result.error_code).__name__}: {said}). {remedy}.")


def _changed(entity: str, keys: str) -> ConfigChangedError:
    return ConfigChangedError(
        f"config of {entity}: somebody else has changed {keys} since it was read. Their value stays. Clear this task: "
        "it reads again and goes on."
    )
