"""Params in the JSON of kafka-reassign-partitions: a plan (pasted, or a file), and a topics-to-move file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.kafka.given_json import decode_given
from kafka_rebalance.kafka.reassign_tool_files import canonical_plan, check_listed_once
from kafka_rebalance.kafka.reassign_tool_files import given_topics as topics_of
from kafka_rebalance.kafka.topics import check_topic_name
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.run.deployment import Deployment

_UNTOUCHED = "Nothing was read from or written to the cluster."


def given_plan(deployment: Deployment, params: Mapping[str, Any]) -> str | None:
    """The plan of the params `plan` or `plan_path` in its canonical form; None if both are empty.

    Raises SettingsError if both are given or the path is not a file below the plans folder, KafkaRuleError if the text
    is not a plan.
    """
    pasted, path = _text(params, "plan"), str(params.get("plan_path") or "").strip()
    if pasted and path:
        raise SettingsError(
            f"The run has a pasted plan and plan_path {path!r}, but it takes only one. {_UNTOUCHED} Leave one empty."
        )
    text = _read(deployment, path) if path else pasted
    return canonical_plan(text) if path or pasted else None


def given_topics(params: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The topics of the param `topics_to_move`; None if it is empty.

    Raises KafkaRuleError for a file that --generate would refuse, SettingsError if `topics_in` selects topics as well.
    """
    text = _text(params, "topics_to_move")
    if not text:
        return None
    topics = topics_of(text)
    check_listed_once(topics)
    for topic in topics:
        check_topic_name(topic)  # `topics_in` holds globs, so a wrong name could select other topics
    if not topics:
        raise SettingsError(f"topics_to_move names no topic. {_UNTOUCHED} Name one, or leave it empty.")
    selected = tuple(params.get("topics_in") or ())
    if selected not in ((), Settings().topics_in):
        raise SettingsError(
            f"The run has topics_to_move and topics_in {list(selected)}, but only one may say which topics may change. "
            f"{_UNTOUCHED} Leave one of them at its default."
        )
    return topics


def _text(params: Mapping[str, Any], name: str) -> str:
    """The param's text with its blanks, so that errors count its lines; empty if there is nothing else."""
    text = str(params.get(name) or "")
    return text if text.strip() else ""


def _read(deployment: Deployment, name: str) -> str:
    """The file's text. People who start a run must not see other files of the worker."""
    folder = deployment.plans_folder
    try:
        path = (folder / name).resolve()
        inside = path.is_relative_to(folder.resolve())
        if inside and path.is_file():
            return decode_given(path.read_bytes(), f"plan_path {name!r}")
    except (OSError, ValueError) as unreadable:  # ValueError: a null byte
        raise SettingsError(f"plan_path {name!r} cannot be read ({unreadable}). {_UNTOUCHED}") from unreadable
    why = "is not a file there" if inside else "leads out of it"
    raise SettingsError(
        f"plan_path {name!r} must name a file below the plans folder {folder}, and {why}. {_UNTOUCHED} "
        "Put the plan there ([kafka_rebalance] plans_folder), or paste it into `plan`."
    )
