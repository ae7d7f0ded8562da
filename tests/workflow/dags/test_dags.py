"""The Dags as Airflow sees them: order, rules, form, and what reading them costs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import timedelta

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.taskgroup import MappedTaskGroup
from airflow.sdk.exceptions import ParamValidationError

from kafka_rebalance.cancel.request import APPROVE_RATE, NEXT
from kafka_rebalance.dags.kafka_rebalance_dag import REBALANCE_PARAMS
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.rebalance.snapshot import PARAMS_OUTSIDE_SETTINGS
from scripts.reference import differing, form_sections
from support.airflow.airflow_home import REPOSITORY
from support.airflow.parsed_dags import read_dags

CHAIN = {  # task: what comes directly before it
    "snapshot": set(),
    "plan": {"snapshot"},
    "render_report": {"plan", "snapshot"},
    "approve": {"render_report", "snapshot"},
    "hold_throttle": {"approve"},
    "reassign": {"approve", "hold_throttle"},
    "release_throttle": {"approve", "hold_throttle", "reassign"},
    "elect_leaders": {"approve", "reassign"},
    "verify": {"approve", "elect_leaders", "release_throttle"},
    "check_verified": {"hold_throttle", "release_throttle"},
    "record": {"approve", "verify"},
}


@pytest.fixture(scope="module")
def dags() -> dict[str, DAG]:
    return read_dags()


@pytest.fixture(scope="module")
def rebalance(dags: dict[str, DAG]) -> DAG:
    return dags["kafka_rebalance"]


def test_every_dag_is_read_without_an_error(dags: dict[str, DAG]) -> None:
    assert set(dags) == {
        "kafka_rebalance",
        "kafka_balance_check",
        "kafka_ledger",
        "kafka_log_dirs",
        "kafka_rebalance_cancel",
        "kafka_throttle_janitor",
        "kafka_topics",
    }


def test_the_ledger_is_compacted_by_one_run_at_a_time_and_only_where_it_is(dags: dict[str, DAG]) -> None:
    dag = dags["kafka_ledger"]
    assert dag.max_active_runs == 1
    assert dag.get_task("compact").upstream_task_ids == {"locate"}
    assert dag.get_task("compact").trigger_rule == "all_success"


def test_the_chain_is_the_designs(rebalance: DAG) -> None:
    assert {task.task_id: set(task.upstream_task_ids) for task in rebalance.tasks} == CHAIN


def test_the_throttle_is_set_up_and_torn_down_and_a_throttle_left_behind_fails_the_run(rebalance: DAG) -> None:
    assert rebalance.get_task("hold_throttle").is_setup
    release = rebalance.get_task("release_throttle")
    assert release.is_teardown
    assert release.on_failure_fail_dagrun
    assert release.retries > 0


def test_a_setup_that_is_killed_is_tried_again_since_no_teardown_follows_it(rebalance: DAG) -> None:
    assert rebalance.get_task("hold_throttle").retries > 0


def test_what_follows_an_approval_runs_whatever_failed_but_never_without_one(rebalance: DAG) -> None:
    """`all_done` would run, and turn the run green, where nothing was approved."""
    for task_id in ("verify", "record"):
        task = rebalance.get_task(task_id)
        assert task.trigger_rule == "all_done_min_one_success"
        assert "approve" in task.upstream_task_ids
        assert not set(task.upstream_task_ids) & {"snapshot", "plan", "render_report"}


def test_a_run_that_somebody_marks_still_has_a_task_that_can_fail_it(rebalance: DAG) -> None:
    """Airflow skips all but teardowns then, and a run whose last tasks are skipped is green."""
    check = rebalance.get_task("check_verified")
    assert check.is_teardown
    assert check.on_failure_fail_dagrun
    assert not check.downstream_task_ids


def test_retries_are_what_each_task_can_make_of_them(rebalance: DAG) -> None:
    tasks = {task.task_id: task for task in rebalance.tasks}
    assert {name: task.retries for name, task in tasks.items() if name not in ("plan", "release_throttle")} == {
        "snapshot": 2,
        "render_report": 2,
        "approve": 5,
        "hold_throttle": 2,
        "reassign": 5,
        "elect_leaders": 2,
        "verify": 3,
        "check_verified": 3,
        "record": 2,
    }
    assert tasks["reassign"].retry_exponential_backoff > 1, "1, or True, is no backoff"
    release = tasks["release_throttle"]
    delays = [
        min(release.retry_delay * release.retry_exponential_backoff**number, release.max_retry_delay)
        for number in range(release.retries)
    ]
    assert delays[0] <= timedelta(seconds=15)
    assert timedelta(hours=2) <= sum(delays, timedelta()) <= timedelta(hours=2.5)


def test_every_setting_that_the_page_of_jobs_lists_is_one_that_a_run_can_set() -> None:
    rows = (REPOSITORY / "docs/jobs.md").read_text().partition("| setting |")[2].partition("\n\n")[0].splitlines()[2:]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert len(named) > 5
    assert named <= REBALANCE_PARAMS.keys()


def test_the_janitor_comes_every_minute_one_at_a_time_and_fails_at_once(dags: dict[str, DAG]) -> None:
    janitor = dags["kafka_throttle_janitor"]
    assert janitor.timetable.expression == "* * * * *"
    assert (janitor.catchup, janitor.max_active_runs) == (False, 1)
    assert {task.retries for task in janitor.tasks} == {0}, "a retry would put off the alert"
    assert janitor.is_paused_upon_creation is False, "nobody has to remember to unpause it"


def test_it_starts_by_hand_and_the_check_by_night(dags: dict[str, DAG]) -> None:
    assert type(dags["kafka_rebalance"].timetable).__name__ == "NullTimetable"
    assert dags["kafka_balance_check"].timetable.expression == "15 2 * * *"
    assert dags["kafka_balance_check"].catchup is False


def test_a_slow_cluster_is_given_up_and_each_is_proposed_on_its_own(dags: dict[str, DAG]) -> None:
    check = dags["kafka_balance_check"].get_task("cluster.check")
    assert check.execution_timeout == timedelta(minutes=20)
    group = check.task_group
    assert isinstance(group, MappedTaskGroup)
    assert set(group.children) == {"cluster.check", "cluster.request", "cluster.propose"}


def test_the_forms_defaults_are_the_settings_defaults(rebalance: DAG) -> None:
    params = {key: value for key, value in rebalance.params.dump().items() if value is not None}
    asked = Settings.from_mapping({key: value for key, value in params.items() if key not in PARAMS_OUTSIDE_SETTINGS})
    assert asked == Settings()


def test_cancelling_now_is_approved_before_it_is_done_and_each_action_has_its_task(dags: dict[str, DAG]) -> None:
    cancel = dags["kafka_rebalance_cancel"]
    assert {task.task_id: set(task.upstream_task_ids) for task in cancel.tasks} == {
        "request": set(),
        "route": {"request"},
        "stop": {"request", "route"},
        "set_throttle": {"request", "route"},
        "approve": {"request", "route"},
        "approve_rate": {"request", "route"},
        "raise_throttle": {"approve_rate"},
        "cancel": {"approve"},
        "verify": {"approve", "cancel"},
        "roll_back": {"request", "route"},
        "approve_election": {"request", "route"},
        "elect_controller": {"approve_election"},
    }
    assert {*NEXT.values(), APPROVE_RATE} == set(cancel.get_task("route").downstream_task_ids)
    assert (cancel.get_task("approve").retries, cancel.get_task("approve_rate").retries) == (5, 5)
    assert (cancel.get_task("cancel").retries, cancel.get_task("verify").retries) == (5, 3)
    assert cancel.get_task("cancel").retry_exponential_backoff > 1
    assert cancel.get_task("roll_back").trigger_dag_id == "kafka_rebalance"
    assert cancel.params["action"] == "stop_after_batch"  # the harmless one, for who only presses the button
    assert type(cancel.timetable).__name__ == "NullTimetable"


@pytest.mark.parametrize(
    ("key", "value"),
    [("job", "tidy up"), ("seed", -1), ("drain", ["one"]), ("max_bytes", -5), ("tolerance", 1.5), ("topics_in", "*")],
)
def test_the_form_refuses_what_a_schema_can_refuse(rebalance: DAG, key: str, value: object) -> None:
    param = rebalance.params.get_param(key)
    param.resolve()
    with pytest.raises(ParamValidationError):
        param.resolve(value=value)


def test_reading_the_dags_loads_nothing_that_only_a_task_needs() -> None:
    heavy = ("pyarrow", "numpy", "kazoo", "confluent_kafka", "kafka", "matplotlib", "pyspark")
    script = f"""
import json, sys
import airflow.sdk, airflow.providers.apache.spark.operators.spark_submit
import airflow.providers.standard.operators.hitl, airflow.providers.standard.operators.trigger_dagrun
before = set(sys.modules)
import kafka_rebalance.dags
print("LOADED" + json.dumps([name for name in {heavy!r} if name in set(sys.modules) - before]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=dict(os.environ), capture_output=True, text=True, check=True
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("LOADED"))
    assert json.loads(line.removeprefix("LOADED")) == []


def test_every_number_of_a_form_has_a_maximum(dags: dict[str, DAG]) -> None:
    """What nobody can mean is refused at the form, also if it comes by the API."""
    open_ended = [
        f"{name}.{key}"
        for name, dag in dags.items()
        for key, param in dag.params.items()
        for schema in (dag.params.get_param(key).schema, dag.params.get_param(key).schema.get("items", {}))
        if {"integer", "number"} & set(kinds_of(schema)) and not {"maximum", "exclusiveMaximum"} & schema.keys()
    ]
    assert open_ended == []


def kinds_of(schema: dict) -> list[str]:
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else kind


@pytest.mark.parametrize(
    ("dag", "key", "value"),
    [
        ("kafka_topics", "partitions", 30_000_000),
        ("kafka_topics", "replication_factor", 2**15),
        ("kafka_rebalance", "drain", [2**31]),
        ("kafka_log_dirs", "throttle_bytes_per_second", 2**64),
    ],
)
def test_a_number_beyond_what_anybody_can_mean_is_refused_by_the_form(
    dags: dict[str, DAG], dag: str, key: str, value: object
) -> None:
    with pytest.raises(ParamValidationError):
        dags[dag].params.get_param(key).resolve(value)


# The tables of params in docs/reference.md are those of the forms.


def test_the_page_has_the_params_of_every_form_as_the_dags_have_them() -> None:
    read_dags()  # made anew: a test of this process may have changed those that it was given
    assert differing(form_sections()) == []


def test_every_dag_with_params_has_a_table() -> None:
    with_form = {dag_id for dag_id, dag in read_dags().items() if dag.params}
    assert {name.removeprefix("params-").replace("-", "_") for name in form_sections()} == with_form
    assert len(with_form) > 3
