"""What a run of `kafka_topics` is asked to do, checked with the rules of kafka-topics where it comes in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kafka_rebalance.errors import KafkaRuleError, SettingsError
from kafka_rebalance.kafka.topics import check_actions, parse_config_arguments, parse_replica_assignment

READ_ONLY = ("list", "describe")
ASSIGNMENTS = ("room", "kafka")  # where the cluster has room, or by Kafka's own algorithm
RACK_MODES = ("enforced", "disabled", "safe")
SELECTIONS = ("all", "under_replicated", "unavailable", "with_overrides")

# TopicCommand.TopicCommandOptions.checkArgs (2.0): the option, and the actions it may come with.
_ALLOWED_WITH = {
    "partitions": ("create", "alter"),
    "replication_factor": ("create",),
    "replica_assignment": ("create", "alter"),
    "config": ("create", "alter"),
    "delete_config": ("alter",),
    "if_exists": ("alter", "delete"),
    "if_not_exists": ("create",),
    "only": READ_ONLY,
}


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """One action on one topic; for list and describe `topic` is a regular expression, empty for every topic."""

    action: str
    topic: str = ""
    partitions: int | None = None
    replication_factor: int | None = None
    replica_assignment: Mapping[int, tuple[int, ...]] | None = None  # of all partitions, the existing ones too
    configs: Mapping[str, str] = field(default_factory=dict)
    delete_configs: tuple[str, ...] = ()
    assignment: str = "room"
    rack_mode: Literal["enforced", "disabled", "safe"] = "enforced"
    only: str = "all"
    if_exists: bool = False
    if_not_exists: bool = False
    bytes_in_per_second: int | None = None  # what producers will write to the whole topic
    sample_rows: int = 200_000  # keys to look at before an expansion; 0: none
    sample_hours: int = 24
    dry_run: bool = False

    @property
    def is_read_only(self) -> bool:
        return self.action in READ_ONLY

    @property
    def adds_partitions(self) -> bool:
        return self.action == "alter" and (self.partitions is not None or self.replica_assignment is not None)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> TopicRequest:
        """The request of a Dag's params. Raises SettingsError naming everything that is wrong with them.

        KafkaRuleError, with Kafka's own text, where kafka-topics has one for it.
        """
        given = {key: value for key, value in params.items() if not _is_empty(value)}
        action = check_actions([params["action"]] if params.get("action") else [])
        problems = [*_misplaced(action, given), *_missing(action, given)]
        if problems:
            raise SettingsError(
                f"The request cannot be used: {'; '.join(problems)}. Nothing was read or written. "
                "Correct the params and start again."
            )
        manual = given.get("replica_assignment")
        return cls(
            action=action,
            topic=str(given.get("topic", "")),
            partitions=given.get("partitions"),
            replication_factor=given.get("replication_factor"),
            replica_assignment=None if manual is None else parse_replica_assignment(manual),
            configs=parse_config_arguments(given.get("config", ())),
            delete_configs=_names(given.get("delete_config", ()), given.get("config", ())),
            assignment=given.get("assignment", "room"),
            rack_mode=given.get("rack_mode", "enforced"),
            only=given.get("only", "all"),
            if_exists=bool(given.get("if_exists")),
            if_not_exists=bool(given.get("if_not_exists")),
            bytes_in_per_second=given.get("bytes_in_per_second"),
            sample_rows=int(params.get("sample_rows") or 0),
            sample_hours=int(params.get("sample_hours") or 24),
            dry_run=bool(given.get("dry_run")),
        )


def _is_empty(value: object) -> bool:
    """What a form sends for a field that nobody filled in; 0 partitions is an answer, and a wrong one."""
    return value is None or value is False or value in ("", [], ())


def _misplaced(action: str, given: Mapping[str, Any]) -> Iterable[str]:
    for option, actions in _ALLOWED_WITH.items():
        if option == "only" and given.get("only") == "all":
            continue
        if option in given and action not in actions:
            yield f"'{option}' goes with {' or '.join(actions)}, not with {action}"
    if action == "create" and "replica_assignment" in given:
        both = [option for option in ("partitions", "replication_factor") if option in given]
        if both:
            yield f"'replica_assignment' says every replica itself and excludes {' and '.join(map(repr, both))}"


def _missing(action: str, given: Mapping[str, Any]) -> Iterable[str]:
    if "topic" not in given and action not in READ_ONLY:
        yield f"'topic' is missing: {action} needs the name of one topic"
    if action == "create" and "replica_assignment" not in given:
        for option in ("partitions", "replication_factor"):
            if option not in given:
                yield f"'{option}' is missing: create needs 'partitions' and 'replication_factor', or an assignment"
    changes = ("partitions", "replica_assignment", "config", "delete_config")
    if action == "alter" and not any(option in given for option in changes):
        yield f"there is nothing to alter: give one of {', '.join(changes)}"


def _names(deleted: Iterable[str], added: Iterable[str]) -> tuple[str, ...]:
    """Configs to remove. Kafka's tool lets the removal win where a name is in both; that is more likely a mistake."""
    both = sorted(set(deleted) & set(parse_config_arguments(tuple(added))))
    if both:
        raise KafkaRuleError(
            f"Invalid config(s): {', '.join(both)}", "They are set and removed at once. Nothing was read or written."
        )
    return tuple(dict.fromkeys(deleted))
