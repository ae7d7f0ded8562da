"""What a run of `kafka_topics` is asked to do, checked with the rules of kafka-topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kafka_rebalance.errors import KafkaRuleError, SettingsError
from kafka_rebalance.kafka.topic_configs import parse_config_arguments
from kafka_rebalance.kafka.topics import check_actions, parse_replica_assignment

READ_ONLY = ("list", "describe")

# Each option with its actions, in the order in which kafka-topics checks them
# (TopicCommand.TopicCommandOptions.checkArgs, 2.0).
_ALLOWED_WITH = {
    "config": ("create", "alter"),
    "delete_config": ("alter",),
    "partitions": ("create", "alter"),
    "replication_factor": ("create",),
    "replica_assignment": ("create", "alter"),
    "only": READ_ONLY,
    "if_exists": ("alter", "delete"),
    "if_not_exists": ("create",),
}

_AS_GIVEN = (
    *("partitions", "replication_factor", "assignment", "rack_mode", "only", "if_exists", "if_not_exists"),
    *("bytes_in_per_second", "dry_run"),
)


def needs_approval(action: str) -> bool:
    """Whether a change of this kind waits for a person: all but a creation, which removes nothing."""
    return action != "create"


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """One action on one topic; for list and describe, `topic` is a regular expression, empty for every topic."""

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
    sample_rows: int = 200_000  # keys to read before an expansion; 0: none
    sample_hours: int = 24
    dry_run: bool = False

    @property
    def is_read_only(self) -> bool:
        return self.action in READ_ONLY

    @property
    def needs_approval(self) -> bool:
        """Whether a person is asked."""
        return needs_approval(self.action) and not self.is_read_only and not self.dry_run

    @property
    def adds_partitions(self) -> bool:
        return self.action == "alter" and (self.partitions is not None or self.replica_assignment is not None)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> TopicRequest:
        """The request of a Dag's params.

        Raises KafkaRuleError with the text of kafka-topics, SettingsError where that tool has no text.
        """
        # A form sends these values for a field that nobody filled in. 0 partitions is an answer, and a wrong one.
        given = {key: value for key, value in params.items() if value is not False and value not in (None, "", [], ())}
        action = check_actions([params["action"]] if params.get("action") else [])
        _check_options(action, given)
        manual = given.get("replica_assignment")
        return cls(
            action=action,
            topic=str(given.get("topic", "")),
            replica_assignment=None if manual is None else parse_replica_assignment(manual),
            configs=parse_config_arguments(given.get("config", ())),
            delete_configs=_names(given.get("delete_config", ()), given.get("config", ())),
            sample_rows=int(params.get("sample_rows") or 0),
            sample_hours=int(params.get("sample_hours") or 24),
            **{name: given[name] for name in _AS_GIVEN if name in given},
        )


def _check_options(action: str, given: Mapping[str, Any]) -> None:
    """Which options go together; the first that does not is refused, as kafka-topics does."""
    if "topic" not in given and action not in READ_ONLY:
        raise _missing("topic")
    for option, actions in _ALLOWED_WITH.items():
        if option in given and action not in actions and not (option == "only" and given["only"] == "all"):
            raise _excluded(option, action, f"'{option}' goes with {' or '.join(actions)}.")
    if action == "create":
        sized = [option for option in ("partitions", "replication_factor") if option in given]
        if "replica_assignment" in given and sized:
            raise _excluded("replica_assignment", sized[0], "It says every replica of every partition itself.")
        if "replica_assignment" not in given:
            for option in ("partitions", "replication_factor"):
                if option not in given:
                    raise _missing(option)
    changes = ("partitions", "replica_assignment", "config", "delete_config")
    if action == "alter" and not any(option in given for option in changes):
        raise SettingsError(
            f"There is nothing to alter. Give one of {', '.join(changes)}. Nothing was read or written."
        )


def _missing(option: str) -> KafkaRuleError:
    """CommandLineUtils.checkRequiredArgs."""
    return KafkaRuleError(
        f'Missing required argument "[{option.replace("_", "-")}]"', f"Give '{option}'. Nothing was read or written."
    )


def _excluded(option: str, other: str, why: str) -> KafkaRuleError:
    """CommandLineUtils.checkInvalidArgs; without a blank before the second name, as it is there."""
    return KafkaRuleError(
        f'Option "[{option.replace("_", "-")}]" can\'t be used with option"[{other.replace("_", "-")}]"',
        f"{why} Nothing was read or written.",
    )


def _names(deleted: Iterable[str], added: Iterable[str]) -> tuple[str, ...]:
    """Configs to remove. If a name is in both, Kafka's tool removes the config; a mistake is more likely."""
    both = sorted(set(deleted) & set(parse_config_arguments(tuple(added))))
    if both:
        raise KafkaRuleError(
            f"Invalid config(s): {', '.join(both)}", "The request sets and removes them. Nothing was read or written."
        )
    return tuple(dict.fromkeys(deleted))
