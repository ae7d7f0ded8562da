"""What a configured notifier gets of each event, and that a wrong one fails nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from airflow.providers.smtp.notifications import smtp
from airflow.providers.standard.exceptions import HITLTimeoutError
from airflow.sdk import DAG
from airflow.sdk.bases.notifier import BaseNotifier
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.log import mask_secret

from kafka_rebalance.errors import ReadError, UnwatchedError, VerificationError
from kafka_rebalance.workflow.notices import FAILED, FINISHED, UNWATCHED, WAITS, Notice
from support.airflow.airflow_home import REPOSITORY
from support.airflow.parsed_dags import read_dags

BASE = "https://airflow.example.org/team"
RUN = f"{BASE}/dags/kafka_rebalance/runs/manual__2026-05-03T14%3A31"
UNTOUCHED = "Nothing was written to the cluster."


class Recorder(BaseNotifier):
    """A notifier as operators have them: its text is a template."""

    template_fields = ("channel", "text")
    told: ClassVar[list[tuple[str, str]]] = []

    def __init__(
        self, channel: str, text: str = "{{ notice.subject }} | {{ notice.text }} | {{ notice.link }}"
    ) -> None:
        super().__init__()
        self.channel, self.text = channel, text

    def notify(self, context: Any) -> None:
        if self.channel == "gone":
            raise OSError("no such channel")
        self.told.append((self.channel, self.text))


PATH = f"{Recorder.__module__}.{Recorder.__qualname__}"


@pytest.fixture(autouse=True)
def _configured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", BASE)
    configure(monkeypatch, {PATH: {"channel": "#kafka"}})
    Recorder.told.clear()
    yield
    Recorder.told.clear()


def configure(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__NOTIFIERS", text)


def context(task_id: str = "reassign", dag_id: str = "kafka_rebalance", **more: Any) -> dict[str, Any]:
    task = SimpleNamespace(
        task_id=task_id,
        op_kwargs=more.pop("op_kwargs", None),
        subject="Kafka kafka_eu: balance? 34 partitions, 322 GiB to copy. Recommended: light · 01234567",
        assigned_users=[{"id": "7", "name": "omar"}],
        response_timeout=timedelta(hours=24),
    )
    run = SimpleNamespace(dag_id=dag_id, run_id="manual__2026-05-03T14:31")
    return {"task": task, "dag_run": run, "params": {"kafka_conn_id": "kafka_eu"}, **more}


def said() -> str:
    ((channel, text),) = Recorder.told
    assert channel == "#kafka"
    return text


def test_a_proposal_that_waits_says_what_who_until_when_and_where() -> None:
    Notice(WAITS)(context("approve"))
    assert said().startswith(
        "Kafka kafka_eu: rebalance waits for approval | Kafka kafka_eu: balance? 34 partitions, 322"
    )
    assert "Recommended: light · 01234567. omar may approve or reject it. It expires at 20" in said()
    assert said().endswith(f"UTC. | {RUN}/tasks/approve/required_actions")


def test_an_expired_request_is_no_failure() -> None:
    expired = HITLTimeoutError(f"Nobody answered within 86400 s, so the request expired. {UNTOUCHED}")
    Notice(FAILED)(context("approve", exception=expired))
    assert said() == (
        "Kafka kafka_eu: rebalance expired without an answer | Nobody answered within 86400 s, so the request "
        f"expired. {UNTOUCHED} | {RUN}/plugin/rebalance"
    )


@pytest.mark.parametrize(
    ("partitions", "actual", "predicted", "expected"),
    [
        (12, 1500.0, 1440.0, "12 partitions, 3.00 GiB copied in 25 min (24 min predicted). "),
        (1, 20.4, 22000.0, "1 partition, 3.00 GiB copied in 20 s (6 h 7 min predicted). "),
        (1, None, 20.0, "1 partition, 3.00 GiB copied. "),
    ],
)
def test_a_finished_rebalance_says_what_was_promised_and_what_came(
    partitions: int, actual: float | None, predicted: float, expected: str
) -> None:
    row = {"candidate": "light", "approved_by": "3", "approver": "uma", "partitions": partitions,
           "copied_bytes": 3 * 1024**3, "actual_seconds": actual, "predicted_seconds": predicted}  # fmt: skip
    Notice(FINISHED)(context("record", ti=SimpleNamespace(xcom_pull=lambda task_ids: row)))
    assert f"rebalance is done and verified | Candidate light, approved by uma: {expected}" in said()
    assert said().endswith(f"{RUN}/plugin/rebalance")


def test_a_failure_comes_with_the_words_of_the_task_that_failed() -> None:
    Notice(FAILED)(
        context(exception=AirflowFailException("RefusedError: the controller dropped orders-3. Look at it."))
    )
    assert said() == (
        "Kafka kafka_eu: rebalance failed in reassign | RefusedError: the controller dropped orders-3. Look at it. | "
        f"{RUN}/plugin/rebalance"
    )


def test_a_lease_that_nobody_watches_is_told_and_no_other_trouble_of_the_janitor() -> None:
    janitor: dict[str, Any] = {
        "task_id": "tend",
        "dag_id": "kafka_throttle_janitor",
        "op_kwargs": {"connection_id": "kafka_us"},
    }
    Notice(UNWATCHED)(context(**janitor, exception=ReadError("ZooKeeper is away")))
    assert Recorder.told == []
    Notice(UNWATCHED)(context(**janitor, exception=UnwatchedError("Nobody follows the copies of run one. Look at it.")))
    assert said().startswith(
        "Kafka kafka_us: nobody follows copies under a throttle | Nobody follows the copies of run one."
    )
    assert f"{BASE}/dags/kafka_throttle_janitor/runs/" in said()


def test_a_check_that_failed_names_its_cluster() -> None:
    check: dict[str, Any] = {
        "task_id": "cluster.check",
        "dag_id": "kafka_balance_check",
        "op_kwargs": {"connection_id": "kafka_us"},
    }
    Notice(FAILED)(context(**check, exception=ReadError("ZooKeeper is away")))
    assert said().startswith("Kafka kafka_us: kafka_balance_check failed in cluster.check | ZooKeeper is away")


def test_what_verify_has_told_is_not_told_again_by_the_last_task() -> None:
    told_by_verify = AirflowFailException("the cluster is not as approved")
    told_by_verify.__cause__ = VerificationError("the cluster is not as approved")
    Notice(FAILED)(context("record", exception=told_by_verify))
    assert Recorder.told == []
    Notice(FAILED)(context("record", exception=OSError("no space left")))
    assert "failed in record" in said()


def test_a_task_that_was_ended_from_outside_is_told_too() -> None:
    Notice(FAILED)(context(exception=None))
    assert "ended the task from outside" in said()


def test_no_notice_holds_a_secret() -> None:
    mask_secret("hunter2-notice")
    Notice(FAILED)(context(exception=RuntimeError("login with hunter2-notice failed")))
    assert "hunter2-notice" not in said()
    assert "login with *** failed" in said()


def test_templates_in_the_words_are_not_rendered_and_html_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, {PATH: {"channel": "#kafka", "text": "{{ notice.html }}"}})
    Notice(FAILED)(context(exception=RuntimeError("topic <b>{{ 7*7 }}</b>")))
    assert "<p>topic &lt;b&gt;{{ 7*7 }}&lt;/b&gt;</p>" in said()
    assert f'<a href="{RUN}/plugin/rebalance">' in said()


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("{", "must be a JSON object of notifiers"),
        ('["a"]', "must be a JSON object of notifiers"),
        ({"no.such.module.Notifier": {}}, "ModuleNotFoundError"),
        ({"json.JSONDecoder": {}}, "is not an Airflow notifier"),
        ({PATH: {"chanel": "#kafka"}}, "TypeError"),
        ({PATH: {"channel": "gone"}}, "no such channel"),
        ({PATH: {"channel": "x", "text": "{{ no.such.thing }}"}}, "UndefinedError"),
    ],
)
def test_a_wrong_notifier_is_an_error_in_the_log_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, value: Any, error: str
) -> None:
    configure(monkeypatch, value)
    Notice(FAILED)(context(exception=RuntimeError("x")))
    assert error in caplog.text
    assert "notifiers" in caplog.text
    assert Recorder.told == []


def test_one_that_fails_does_not_keep_the_others_from_hearing(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, {"no.such.Notifier": {}, PATH: {"channel": "#kafka"}})
    Notice(FAILED)(context(exception=RuntimeError("x")))
    assert "failed in reassign" in said()


def test_without_the_option_nobody_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delenv("AIRFLOW__KAFKA_REBALANCE__NOTIFIERS")
    Notice(FAILED)({})
    assert (Recorder.told, caplog.text) == ([], "")


def test_the_example_of_the_install_page_sends_an_e_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's own SmtpNotifier; only its connection to a server is simulated."""
    page = (REPOSITORY / "docs/install.md").read_text()
    example = page.partition("notifiers = ")[2].partition("\n```")[0]
    sent: list[dict[str, Any]] = []

    class Server:
        from_email = None  # of the connection

        def __enter__(self) -> Server:
            return self

        def __exit__(self, *_: object) -> None: ...

        def send_email_smtp(self, **mail: Any) -> None:
            sent.append(mail)

    monkeypatch.setattr(smtp.SmtpNotifier, "hook", Server())
    configure(monkeypatch, example)
    Notice(FAILED)(context(exception=RuntimeError("it broke")))
    (mail,) = sent
    assert mail["subject"] == "Kafka kafka_eu: rebalance failed in reassign"
    assert "<p>it broke</p>" in mail["html_content"]
    assert (mail["to"], mail["from_email"]) == ("kafka-oncall@example.org", "airflow@example.org")


def test_every_event_hangs_on_the_task_that_knows_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, "{ wrong")  # and reading the Dags does not care
    dags = read_dags()

    def events(dag: DAG, kind: str) -> dict[str, list[str]]:
        found = {task.task_id: getattr(task, kind) for task in dag.tasks if getattr(task, kind)}
        # A mapped task's become a list when it is mapped.
        return {
            name: [one.event for one in (ones if isinstance(ones, list) else [ones])] for name, ones in found.items()
        }

    for dag_id, dag in dags.items():
        expected = UNWATCHED if dag_id == "kafka_throttle_janitor" else FAILED
        assert events(dag, "on_failure_callback") == {task.task_id: [expected] for task in dag.tasks}, dag_id
        asking = [task for task in dag.tasks if task.task_id == "approve"]
        assert [one.event for task in asking for one in task.notifiers] == [WAITS] * len(asking)
    assert events(dags["kafka_rebalance"], "on_success_callback") == {"record": [FINISHED]}
