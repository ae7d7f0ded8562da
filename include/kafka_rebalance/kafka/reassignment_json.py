"""The files of kafka-reassign-partitions, and what the tool checks and proposes.

Source: kafka.admin.ReassignPartitionsCommand of 2.0. The tool leaves some orders to a hash map; here, the order is that
of the file. The znode has another form, without `log_dirs`: see zookeeper.znodes.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from kafka_rebalance.errors import KafkaRuleError, SettingsError
from kafka_rebalance.kafka.assignment import assign_replicas, brokers_with_racks
from kafka_rebalance.kafka.given_json import as_int, as_list, as_object, as_text, one_json_value, parse_json, required
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition

ANY_LOG_DIR = "any"
_VERSION = 1

Replica = tuple[str, int, int]  # topic, partition, broker
_Value = TypeVar("_Value", bound=Hashable)

# The heading before the plan in what `kafka-reassign-partitions --generate` prints (ReassignPartitionsCommand).
_PROPOSED = "Proposed partition reassignment configuration"
# The headings before the lists of today, and after them in what `--execute` prints.
_CURRENT = "Current partition replica assignment"
_ROLLBACK = "Save this to use as the --reassignment-json-file option"


def parse_reassignment(text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """{partition: new replicas} of a plan, in the order of the file, after all checks that need no cluster.

    Raises KafkaRuleError with the tool's message, in the tool's order: first an entry that it cannot read, then an
    empty plan, empty lists, partitions that come twice, brokers that come twice. Log directories: `parse_log_dirs`.
    """
    entries = _parse_entries(text)
    if not entries:
        raise _refused("Partition reassignment data file is empty", "Name at least one partition.")
    if not all(replicas for _, replicas, _ in entries):
        raise _refused("Partition replica list cannot be empty", "An empty list would destroy the partition.")
    partitions = (partition for partition, _, _ in entries)
    _check_once("Partition reassignment contains duplicate topic partitions", partitions, "Name each partition once.")
    repeated = [(partition, repeats) for partition, replicas, _ in entries if (repeats := _duplicates(replicas))]
    if repeated:
        lists = ". ".join(
            f"{partition} contains multiple entries for {_joined(repeats)}" for partition, repeats in repeated
        )
        raise _refused(
            f"Partition replica lists may not contain duplicate entries: {lists}", "Name each broker once in a list."
        )
    return {partition: replicas for partition, replicas, _ in entries}


def parse_log_dirs(text: str) -> dict[Replica, str]:
    """The log directories that a plan names, without `any`. Raises KafkaRuleError if it cannot read an entry."""
    return {
        (*partition, broker): log_dir
        for partition, replicas, log_dirs in _parse_entries(text)
        for broker, log_dir in zip(replicas, log_dirs, strict=True)
        if log_dir != ANY_LOG_DIR
    }


def parse_plan(text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """The lists of a plan in Kafka's JSON, or of the proposal in the output of `--generate`.

    Raises KafkaRuleError as `kafka-reassign-partitions --execute` would. Raises SettingsError for a text of which the
    tool would ignore a part, and for a plan that names log directories, because we move nothing between the log
    directories of one broker.
    """
    text = one_json_value(text, _where_the_plan_begins(text))
    lists = parse_reassignment(text)
    named = parse_log_dirs(text)
    if named:
        raise SettingsError(
            f"The plan names log directories for {len(named)} replicas, but kafka-rebalance does not choose log "
            'directories. Nothing was planned or written. Write "any" for each, or leave log_dirs out.'
        )
    return lists


def _where_the_plan_begins(text: str) -> int:
    """Where its JSON begins, after the headings of `--generate`. Raises SettingsError if it is no plan, or several."""
    if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return 0
    before, proposed, after = text.partition(_PROPOSED)
    if _ROLLBACK in text or (_CURRENT in text and not proposed):
        raise SettingsError(
            "This is what kafka-reassign-partitions --execute printed: its JSON holds the lists from before, not the "
            "plan. Nothing was planned or written. Give the file that --execute was given. If you want to go back, "
            "give the JSON alone."
        )
    if proposed and (_PROPOSED in after or before.count(_CURRENT) > 1 or "{" in before.partition(_CURRENT)[0]):
        raise SettingsError(
            "The text holds more than one plan, or more than one output of kafka-reassign-partitions --generate. "
            "Nothing was planned or written. Make one plan of all that is meant."
        )
    return len(before) + len(proposed) if proposed else 0


def canonical_plan(text: str) -> str:
    """The plan in its one canonical form, so that one plan has one digest. Raises as `parse_plan`."""
    return format_reassignment(dict(sorted(parse_plan(text).items())), with_log_dirs=False)


def parse_topics_to_move(text: str) -> tuple[str, ...]:
    """The topics of a topics-to-move file, in its order, repetitions included. Raises KafkaRuleError."""
    return tuple(as_text(required(as_object(entry), "topic")) for entry in _entries(text, "topics"))


def given_topics(text: str) -> tuple[str, ...]:
    """As `parse_topics_to_move`, of a person's text. Raises SettingsError where the tool would ignore a part of it."""
    return parse_topics_to_move(one_json_value(text))


def check_listed_once(topics: Sequence[str]) -> None:
    """Raises KafkaRuleError, as --generate does, if a topic comes more than once."""
    _check_once("List of topics to reassign contains duplicate entries", topics, "Name each topic once.")


def format_reassignment(assignment: Mapping[TopicPartition, Sequence[int]], *, with_log_dirs: bool = True) -> str:
    """A plan as the tool writes it, compact, partitions in the given order. `log_dirs` has "any" for every replica."""
    entries = []
    for (topic, partition), replicas in assignment.items():
        entry: dict[str, object] = {"topic": topic, "partition": partition, "replicas": list(replicas)}
        if with_log_dirs:
            entry["log_dirs"] = [ANY_LOG_DIR] * len(replicas)
        entries.append(entry)
    return json.dumps({"version": _VERSION, "partitions": entries}, separators=(",", ":"))


def check_executable(
    assignment: Mapping[TopicPartition, Sequence[int]],
    existing: Mapping[TopicPartition, Sequence[int]],
    brokers: Collection[int],
) -> None:
    """The checks of --execute against the cluster: every partition exists, every broker is registered now.

    A broker that is down does not exist for the tool. Raises KafkaRuleError.
    """
    missing = [TopicPartition(*partition) for partition in assignment if partition not in existing]
    if missing:
        raise _refused(
            f"The proposed assignment contains non-existent partitions: ListBuffer({', '.join(map(str, missing))})",
            "Take them out, or create them first.",
        )
    registered = set(brokers)
    unknown = dict.fromkeys(
        replica for replicas in assignment.values() for replica in replicas if replica not in registered
    )
    if unknown:
        raise _refused(
            f"The proposed assignment contains non-existent brokerIDs: {_joined(unknown)}",
            "Start these brokers, or name others.",
        )


def generate(
    topics: Sequence[str],
    existing: Mapping[TopicPartition, Sequence[int]],
    brokers: Sequence[int],
    racks: Mapping[int, str | None] | None,
    rng: random.Random,
) -> dict[TopicPartition, tuple[int, ...]]:
    """What --generate proposes for these topics on these brokers: each topic as if it were created anew.

    The present replicas play no part, so nearly everything moves. `racks` has the live brokers, with None for a broker
    without a rack. Other brokers, and topics that do not exist, are silently left out. If `racks` is None, all brokers
    are live and racks play no part (--disable-rack-aware). A topic's replication factor is that of its lowest partition
    (the tool takes any partition), and partition ids count from 0.
    Raises KafkaRuleError if a broker or a topic is listed twice, and as the creation of these topics would.
    """
    _check_once("Broker list contains duplicate entries", brokers, "Name each broker once.")
    check_listed_once(topics)
    live = sorted(brokers if racks is None else [broker for broker in brokers if broker in racks])
    known = brokers_with_racks({broker: racks[broker] for broker in live}, "enforced") if racks is not None else None
    partitions: dict[str, dict[int, Sequence[int]]] = {}
    for (topic, partition), replicas in existing.items():
        partitions.setdefault(topic, {})[partition] = replicas
    proposal: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in topics:
        if lists := partitions.get(topic):
            assigned = assign_replicas(live, len(lists), len(lists[min(lists)]), racks=known, rng=rng)
            proposal |= {TopicPartition(topic, partition): replicas for partition, replicas in assigned.items()}
    return proposal


def _parse_entries(text: str) -> list[tuple[TopicPartition, tuple[int, ...], tuple[str, ...]]]:
    """(partition, replicas, log directories) of each entry. Raises KafkaRuleError at the first unreadable one."""
    entries = []
    for value in _entries(text, "partitions"):
        fields = as_object(value)
        topic = as_text(required(fields, "topic"))
        partition = TopicPartition(topic, as_int(required(fields, "partition")))
        replicas = tuple(map(as_int, as_list(required(fields, "replicas"))))
        if "log_dirs" in fields:
            log_dirs = tuple(map(as_text, as_list(fields["log_dirs"])))
        else:
            log_dirs = (ANY_LOG_DIR,) * len(replicas)
        if len(replicas) != len(log_dirs):
            raise _refused(
                f"Size of replicas list {_vector(replicas)} is different from size of log dirs list "
                f"{_vector(log_dirs)} for partition {partition}",
                'Name one log directory for each replica ("any" if it does not matter), or leave log_dirs out.',
            )
        entries.append((partition, replicas, log_dirs))
    return entries


def _entries(text: str, name: str) -> Sequence[object]:
    """The list of that name in a file of version 1; empty if there is none. Raises KafkaRuleError."""
    document = as_object(parse_json(text))
    version = as_int(document.get("version", _VERSION))
    if version != _VERSION:
        raise _refused(f"Not supported version field value {version}", "Write version 1.")
    return as_list(document[name]) if name in document else ()


def _duplicates(values: Iterable[_Value]) -> list[_Value]:
    """The values that come more than once, each once, in the order of their first appearance."""
    return [value for value, count in Counter(values).items() if count > 1]


def _check_once(kafka_message: str, values: Iterable[_Value], remedy: str) -> None:
    if twice := _duplicates(values):
        raise _refused(f"{kafka_message}: {_joined(twice)}", remedy)


def _joined(values: Iterable[object]) -> str:
    return ",".join(map(str, values))


def _vector(values: Iterable[object]) -> str:
    return f"Vector({', '.join(map(str, values))})"


def _refused(kafka_message: str, remedy: str) -> KafkaRuleError:
    return KafkaRuleError(kafka_message, f"Nothing was written. {remedy}")


# A candidate and its way back as files for that tool.


def plan_file(candidate: str) -> str:
    """The name of the file that requests the candidate."""
    return f"{candidate}.json"


def rollback_file(candidate: str) -> str:
    """The name of the file that requests the replica lists of now."""
    return f"{candidate}-rollback.json"


def reassignment_files(candidate: str, moves: Sequence[Move]) -> dict[str, bytes]:
    """{file name: content} for `--reassignment-json-file`, partitions in order.

    Moves that only elect a leader are left out. Empty if no list changes, because the tool refuses an empty plan.
    """
    ordered = sorted((move for move in moves if not move.is_election), key=lambda move: move.topic_partition)
    if not ordered:
        return {}
    return {
        plan_file(candidate): _text({move.topic_partition: move.after for move in ordered}),
        rollback_file(candidate): _text({move.topic_partition: move.before for move in ordered}),
    }


def _text(lists: dict[TopicPartition, tuple[int, ...]]) -> bytes:
    return f"{format_reassignment(lists)}\n".encode()
