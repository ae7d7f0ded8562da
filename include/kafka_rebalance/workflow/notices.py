"""Notices to people through Airflow's notifiers: `[kafka_rebalance] notifiers`, a JSON object {class: arguments}.

The arguments are those of the notifier. Its templated fields can use `{{ notice.subject }}`, `.text`, `.html`, `.link`,
`.event` and `.connection_id`. This is an option and not a Variable because it names code that Airflow runs. A notice
that cannot be sent is an error in the task's log; it never fails the task.
"""

from __future__ import annotations

import html
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from airflow.providers.standard.exceptions import HITLTimeoutError
from airflow.sdk import BaseNotifier, conf
from airflow.sdk.log import redact

from kafka_rebalance import clock
from kafka_rebalance.errors import SettingsError, UnwatchedError, VerificationError
from kafka_rebalance.pages.run_state import RunState
from kafka_rebalance.pages.units import format_bytes, format_count, format_duration
from kafka_rebalance.run.clusters import REBALANCE_DAG
from kafka_rebalance.workflow.urls import answer_url, run_url, with_host

log = logging.getLogger(__name__)

SECTION, OPTION = "kafka_rebalance", "notifiers"
WAITS, EXPIRED, FINISHED, FAILED, UNWATCHED = "waits", "expired", "finished", "failed", "unwatched"
LAST_TASK = "record"
LONGEST_TEXT = 3000  # an exception can hold the whole output of a command


@dataclass(frozen=True, slots=True)
class Message:
    """What happened, in words; `html` is the escaped text with the link."""

    event: str
    connection_id: str
    subject: str  # one line
    text: str
    link: str
    html: str = ""


class Notice(BaseNotifier):
    """Sends an event to the configured notifiers. Tasks use it as a callback, approval requests as a notifier.

    `failed` becomes `expired` for a request without an answer. `unwatched` sends only UnwatchedError: the janitor runs
    every minute, and would repeat any other error as often.
    """

    def __init__(self, event: str) -> None:
        super().__init__()
        self.event = event

    def __call__(self, *args: Any) -> None:
        self.notify(args[0])

    def notify(self, context: Any) -> None:
        """Never raises."""
        try:
            configured = _read_configured()
            message = _message_of(self.event, context) if configured else None
        except Exception as wrong:
            log.error("No notification was sent: %s", redact(str(wrong)))
            return
        if message is None:
            return
        for path, arguments in configured.items():
            try:
                _notifier(path, arguments)({**context, "notice": asdict(message)})
                log.info("%s sent: %s", path, message.subject)
            except Exception as failed:
                log.error(
                    "%s could not send %r (%s: %s). The run goes on. Correct [%s] %s.",
                    path, message.subject, type(failed).__name__, redact(str(failed)), SECTION, OPTION,
                )  # fmt: skip


def _read_configured() -> dict[str, dict[str, Any]]:
    """{dotted path of a notifier: its arguments}; empty if none is configured. Raises SettingsError."""
    text = conf.get(SECTION, OPTION, fallback="") or ""
    if not text.strip():
        return {}
    try:
        notifiers = json.loads(text)
    except ValueError:
        notifiers = None
    if not isinstance(notifiers, dict) or not all(isinstance(arguments, dict) for arguments in notifiers.values()):
        raise SettingsError(
            f"[{SECTION}] {OPTION} must be a JSON object of notifiers and their arguments, as in "
            '{"airflow.providers.smtp.notifications.smtp.SmtpNotifier": {"to": "kafka@example.org"}}. Correct it.'
        )
    return notifiers


def _notifier(path: str, arguments: Mapping[str, Any]) -> BaseNotifier:
    module, _, name = path.rpartition(".")
    made = getattr(import_module(module), name)
    if not (isinstance(made, type) and issubclass(made, BaseNotifier)):
        raise SettingsError(f"{path} is not an Airflow notifier (airflow.sdk.BaseNotifier)")
    return made(**arguments)


def _message_of(event: str, context: Mapping[str, Any]) -> Message | None:
    """The words for an event; None if nobody needs to know."""
    exception, dag_run, task = context.get("exception"), context["dag_run"], context["task"]
    cause = getattr(exception, "__cause__", None)
    if event == UNWATCHED and not isinstance(exception, UnwatchedError):
        return None
    if event == FAILED and isinstance(exception, HITLTimeoutError):
        event = EXPIRED
    if event == FAILED and task.task_id == LAST_TASK and isinstance(cause, VerificationError):
        return None  # the failure of `verify` was sent already
    mapped = (getattr(task, "op_kwargs", None) or {}).get("connection_id")  # of a mapped task
    connection_id = str(mapped or (context.get("params") or {}).get("kafka_conn_id") or "(all clusters)")
    heading, text = _words(event, context)
    subject = " ".join(f"Kafka {connection_id}: {heading}".split())
    text = str(redact(text))[:LONGEST_TEXT]
    run = dag_run.dag_id, dag_run.run_id
    answered_at = answer_url(*run, task.task_id)
    shown_at = f"{run_url(*run)}/plugin/rebalance" if dag_run.dag_id == REBALANCE_DAG else run_url(*run)
    link = with_host(answered_at if event == WAITS else shown_at)
    page = f'<p>{html.escape(text)}</p><p><a href="{html.escape(link)}">{html.escape(link)}</a></p>'
    return Message(event, connection_id, subject, text, link, page)


def _words(event: str, context: Mapping[str, Any]) -> tuple[str, str]:
    """What happened: a short heading and the whole text."""
    task, dag_id, exception = context["task"], context["dag_run"].dag_id, context.get("exception")
    what = "rebalance" if dag_id == REBALANCE_DAG else dag_id
    if event == WAITS:
        return f"{what} {RunState.WAITING.word}", _waits(task)
    if event == EXPIRED:
        return f"{what} {RunState.UNANSWERED.word}", str(exception)
    if event == FINISHED:
        return f"{what} is {RunState.VERIFIED.word}", _finished(context)
    if event == UNWATCHED:
        return "nobody follows copies under a throttle", str(exception)
    if exception is None:
        exception = (
            "A person or Airflow ended the task from outside. The task's log and the run's page show how far it came."
        )
    return f"{what} failed in {task.task_id}", str(exception)


def _waits(task: Any) -> str:
    people = ", ".join(person["name"] or person["id"] for person in task.assigned_users or ())
    until = ""
    if task.response_timeout is not None:
        until = f" It expires at {clock.utc_now() + task.response_timeout:%Y-%m-%d %H:%M} UTC."
    question = task.subject if task.subject.endswith(("?", ".")) else f"{task.subject}."
    return f"{question} {people or 'Anybody who may answer'} may approve or reject it.{until}"


def _finished(context: Mapping[str, Any]) -> str:
    row = context["ti"].xcom_pull(task_ids=LAST_TASK) or {}
    if not row:
        return "The cluster is as approved: every check of the verification passed."
    took, predicted = row.get("actual_seconds"), row.get("predicted_seconds")
    time = f" in {format_duration(took)}" if took is not None else ""
    against = f" ({format_duration(predicted)} predicted)" if took is not None and predicted is not None else ""
    return (
        f"Candidate {row['candidate']}, approved by {row['approver']}: "
        f"{format_count(row['partitions'], 'partition', 'partitions')}, {format_bytes(row['copied_bytes'])} "
        f"copied{time}{against}. Every check of the verification passed."
    )
