"""What a run of `kafka_topics` is asked to do, checked with the rules of kafka-topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kafka_rebalance.documents.json_files import TOPIC, JsonFile, Time, omitted
from kafka_rebalance.errors import KafkaRuleError, SettingsError
from kafka_rebalance.kafka.topic_configs import parse_config_arguments
from kafka_rebalance.kafka.topics import check_actions, parse_replica_assignment
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.topic_change import TopicChange
from kafka_rebalance.model.value_readers import flag, integer, one_of
from kafka_rebalance.topics.forecast import BrokerCost

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


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise ValueError("must be a list of texts")
    return tuple(value)


_ANY_INTEGER = integer(-(2**31), 2**31 - 1)  # Kafka's int; which of them it takes, its own rules say
_READERS: dict[str, Callable[[Any], Any]] = {
    "action": _text,
    "topic": _text,
    "replica_assignment": _text,
    "config": _texts,
    "delete_config": _texts,
    "partitions": _ANY_INTEGER,
    "replication_factor": _ANY_INTEGER,
    "assignment": one_of(("room", "kafka")),
    "rack_mode": one_of(("enforced", "disabled", "safe")),
    "only": one_of(("all", "under_replicated", "unavailable", "with_overrides")),
    "if_exists": flag,
    "if_not_exists": flag,
    "bytes_in_per_second": integer(0),
    "sample_rows": integer(0),
    "sample_hours": integer(1, 1_000_000),
    "dry_run": flag,
}
_AS_GIVEN = (
    *("topic", "partitions", "replication_factor", "assignment", "rack_mode", "only", "if_exists", "if_not_exists"),
    *("bytes_in_per_second", "sample_hours", "dry_run"),
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
        given = {name: _read(name, value) for name, value in given.items()}
        action = check_actions([given["action"]] if "action" in given else [])
        _check_options(action, given)
        manual = given.get("replica_assignment")
        return cls(
            action=action,
            replica_assignment=None if manual is None else parse_replica_assignment(manual),
            configs=parse_config_arguments(given.get("config", ())),
            delete_configs=_names(given.get("delete_config", ()), given.get("config", ())),
            sample_rows=given.get("sample_rows", 0),
            **{name: given[name] for name in _AS_GIVEN if name in given},
        )


def _read(name: str, value: Any) -> Any:
    """Airflow's forms take 3.0 for an integer, and its API does not look at a Dag's texts. Raises SettingsError."""
    try:
        return _READERS[name](value) if name in _READERS else value
    except ValueError as wrong:
        raise SettingsError(
            f"{name} {wrong}, and is {str(value)[:100]!r}. Nothing was read or written. Correct it."
        ) from wrong


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


# topic.json: the change, and what people should know about it.


NOT_ASKED = ("",)  # a topic that is to be created has no groups


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedChange:
    """`groups` use the topic; None: they cannot be read, and `groups_unread` says why."""

    connection_id: str
    cluster_id: str
    policy_digest: str
    limits_digest: str | None = omitted()  # of the policy bound by those of other connections; earlier versions lack it
    nonce: str
    observed_at: Time
    dag_id: str
    run_id: str
    requested_by: str | None
    reason: str
    dry_run: bool
    needs_approval: bool
    change: TopicChange
    digest: str
    assignment: str
    replica_bytes: int | None
    costs: tuple[BrokerCost, ...]
    notes: tuple[str, ...]
    size_bytes: int | None
    groups: tuple[str, ...] | None = omitted(NOT_ASKED)
    groups_unread: str | None = omitted("")
    group_types: Mapping[str, str] | None = omitted()  # of those that are not classic
    groups_not_read: tuple[Finding, ...] = omitted(())
    sample_digest: str | None = omitted()  # of sample.json: the approver reads figures of exactly these offsets


TOPIC_FILE = JsonFile(TOPIC, RequestedChange)
