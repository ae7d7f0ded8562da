"""Each task works in its own run's folder: an XCom that names another run's is refused, of whichever Dag."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.cancel.cancel_now import cancel_now, stop_run
from kafka_rebalance.cancel.cancel_now import verify as verify_cancel
from kafka_rebalance.cancel.set_throttle import set_throttle
from kafka_rebalance.dags import kafka_rebalance_dag
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.folder_owner import FolderOwner, read_folder_owner
from kafka_rebalance.errors import RunFolderError
from kafka_rebalance.rebalance.elect_leaders import elect_leaders
from kafka_rebalance.rebalance.report import render_report
from kafka_rebalance.rebalance.spark_checks import check_spark_arguments
from kafka_rebalance.rebalance.verify import record, verify
from kafka_rebalance.run import ledger, run_folder
from kafka_rebalance.run.inputs import StartedRun, StepInputs
from kafka_rebalance.run.requester import hand_on
from kafka_rebalance.spark import job_driver
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.run_step import run_step, started_run
from support.airflow.approval_requests import APPROVAL, SKEWED, Asked, World
from support.airflow.spark_submits import rebalance_submit
from support.runs.cancel_run import CancelRun, begin, cancellable_cluster
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, approved_run, batched_run, other_dag_run

OTHERS = "belongs to run kafka_rebalance/"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    def park(self: HITLOperator, context: Any) -> None:
        raise Asked

    monkeypatch.setattr(HITLOperator, "execute", park)
    return World(tmp_path, monkeypatch, SKEWED, {})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    return cancellable_cluster(monkeypatch, "2.8")


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    return approved_run(tmp_path, cluster, monkeypatch)


def as_of_an_earlier_version(folder: Path) -> None:
    """nonce.json without its owner."""
    nonce = json_files.read_json(folder, json_files.NONCE)["nonce"]
    json_files.write_json(folder, json_files.NONCE, {"nonce": nonce})


# --- the approval ---


@pytest.mark.parametrize("earlier", [False, True])
def test_a_run_that_was_pointed_at_another_runs_plan_asks_nobody(world: World, earlier: bool) -> None:
    """Olive asked for the plan, edits the XComs of a run that omar started, and would approve her own plan there."""
    if earlier:
        as_of_an_earlier_version(world.folder)
    world.context["dag_run"] = SimpleNamespace(
        **{**vars(world.dag_run), "run_id": "omars", "triggering_user_name": "omar"}
    )
    with pytest.raises(AirflowFailException, match=rf"{OTHERS}run, but this is run kafka_rebalance/omars"):
        world.operator.execute(world.context)


def test_an_answer_counts_in_the_run_alone_that_asked(world: World) -> None:
    world.ask()
    option = world.option("balanced")
    world.context["dag_run"] = SimpleNamespace(
        **{**vars(world.dag_run), "run_id": "omars", "triggering_user_name": "omar"}
    )
    with pytest.raises(AirflowFailException, match=OTHERS):
        world.answer(option)
    assert not (world.folder / json_files.DECISION).exists()


def test_a_run_of_the_same_name_of_another_dag_is_another_run(world: World) -> None:
    world.context["dag_run"] = SimpleNamespace(**{**vars(world.dag_run), "dag_id": "kafka_topics"})
    with pytest.raises(AirflowFailException, match=rf"{OTHERS}run, but this is run kafka_topics/run"):
        world.operator.execute(world.context)


def test_an_attempt_is_not_approved_once_a_later_one_has_begun(world: World) -> None:
    world.ask()
    run_folder.create_run_folder(airflow_deployment(), "prod", SimpleNamespace(dag_id="kafka_topics", run_id="run"))
    world.ask()
    run_folder.create_run_folder(airflow_deployment(), "prod", world.dag_run)
    with pytest.raises(AirflowFailException, match="attempt 1 of this run, and attempt 3 has begun since"):
        world.answer(world.option("balanced"))


def test_a_folder_that_was_copied_is_not_the_runs(world: World) -> None:
    """Its nonce.json names this run, and another attempt."""
    copy = world.folder.parent / "7"
    copy.mkdir()
    (copy / json_files.NONCE).write_bytes((world.folder / json_files.NONCE).read_bytes())
    operator = ApprovalOperator(task_id="approve", approval=APPROVAL, run_folder=str(copy), nonce=world.nonce)
    with pytest.raises(AirflowFailException, match="belongs to attempt 1 of run run on prod"):
        operator.execute(world.context)


# --- what comes after it ---


STEPS: dict[str, Callable[[SimulatedRun], Any]] = {
    "hold_throttle": lambda run: run.hold(),
    "reassign": lambda run: run.request(),
    "elect_leaders": lambda run: run_step(elect_leaders, run.dag_run, run.decision),
    "release_throttle": lambda run: run.release(),
    "verify": lambda run: run_step(verify, run.dag_run, run.decision),
    "record": lambda run: run_step(record, run.dag_run, run.decision),
    "render_report": lambda run: run_step(render_report, run.dag_run, str(run.folder)),
}


@pytest.mark.parametrize("step", STEPS)
def test_no_task_of_another_run_works_with_what_was_approved_in_this_one(
    run: SimulatedRun, cluster: SimulatedCluster, step: str
) -> None:
    before = cluster.tree()
    run.dag_run = other_dag_run("two")
    with pytest.raises(AirflowFailException, match=rf"{OTHERS}one, but this is run kafka_rebalance/two"):
        STEPS[step](run)
    assert cluster.tree() == before


@pytest.mark.parametrize("earlier", [False, True])
def test_the_runs_own_tasks_go_on_also_where_an_earlier_version_began_it(
    run: SimulatedRun, cluster: SimulatedCluster, earlier: bool
) -> None:
    if earlier:
        as_of_an_earlier_version(run.folder)
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True


def test_what_was_approved_in_an_earlier_attempt_is_not_begun_any_more(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run_folder.create_run_folder(airflow_deployment(), "kafka_in_process", run.dag_run)
    with cluster.unchanged(), pytest.raises(AirflowFailException, match="attempt 2 has begun since"):
        run.hold()


def test_what_has_begun_is_brought_to_its_end_beside_a_later_attempt(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    assert run.request() == 1
    run_folder.create_run_folder(airflow_deployment(), "kafka_in_process", run.dag_run)
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True


# --- Spark ---


def test_the_dag_gives_spark_what_is_checked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    dag_run = other_dag_run("manual__2026-05-03T14:31:58+00:00")
    dag = kafka_rebalance_dag.rebalance()
    submit = dag.get_task("plan").prepare_for_execution()
    pushed = {"run_folder": "/runs/prod/x/1", "nonce": "n0", "metrics": "/runs/ledger/metrics/cluster=prod"}
    pull = SimpleNamespace(xcom_pull=lambda task_ids, key: pushed[key])
    submit.render_template_fields({"ti": pull, "dag_run": dag_run})
    given = rebalance_submit(pushed["run_folder"], pushed["nonce"], pushed["metrics"], dag_run)
    assert (submit.py_files, submit.application_args) == (given.py_files, given.application_args)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--snapshot", "/elsewhere"),
        ("--settings", "/elsewhere/settings.json"),
        ("--metrics", "/elsewhere"),
        ("--expect-run", "kafka_rebalance/two"),
        (None, "/elsewhere/evil.zip"),
        (None, "{folder}/kafka_rebalance.zip"),  # code that somebody has put into the run's own folder
    ],
)
def test_nothing_of_another_folder_and_no_code_is_submitted(run: SimulatedRun, option: str | None, value: str) -> None:
    metrics = str(ledger.folder_of(airflow_deployment(), "metrics", "kafka_in_process"))
    submit = rebalance_submit(run.folder, run.xcom["nonce"], metrics, run.dag_run)
    context = {"task": submit, "dag_run": run.dag_run}
    run_step(check_spark_arguments, context["dag_run"], context["task"])
    if option is None:
        submit.py_files = value.format(folder=run.folder)
    else:
        submit.application_args[submit.application_args.index(option) + 1] = value
    with pytest.raises(AirflowFailException, match="not this run's own"):
        run_step(check_spark_arguments, context["dag_run"], context["task"])


def test_another_runs_plan_is_not_made_again(run: SimulatedRun) -> None:
    other = other_dag_run("two")
    metrics = str(ledger.folder_of(airflow_deployment(), "metrics", "kafka_in_process"))
    submit = rebalance_submit(run.folder, run.xcom["nonce"], metrics, other)
    with pytest.raises(AirflowFailException, match=OTHERS):
        run_step(check_spark_arguments, other, submit)


def test_sparks_driver_refuses_a_folder_of_another_run(run: SimulatedRun) -> None:
    job_driver.check_run(run.folder, "kafka_rebalance/one")
    with pytest.raises(RunFolderError, match=OTHERS):
        job_driver.check_run(run.folder, "kafka_rebalance/two")


@pytest.mark.parametrize(("place", "code"), [("/elsewhere", None), (None, "/elsewhere/evil.zip")])
def test_the_ledgers_job_gets_the_ledger_and_no_code(run: SimulatedRun, place: str | None, code: str | None) -> None:
    pushed: dict[str, str] = {}
    inputs = StepInputs(StartedRun("kafka_ledger", "night"), airflow_deployment(), pushed.__setitem__)
    ledger.locate(inputs)
    given = SimpleNamespace(application_args=["--ledger", pushed["ledger"]], py_files=None)
    ledger.check_located(inputs, given)
    edited = SimpleNamespace(application_args=["--ledger", place or pushed["ledger"]], py_files=code)
    with pytest.raises(RunFolderError, match="not this run's own"):
        ledger.check_located(inputs, edited)


# --- cancelling ---


def test_a_cancelling_is_carried_out_by_the_run_alone_that_asked_for_it(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = batched_run(tmp_path, cluster, monkeypatch)
    begin(run, cluster)
    asked = CancelRun(monkeypatch)
    asked.approved()
    other = SimpleNamespace(
        dag_id="kafka_rebalance_cancel", run_id="others", triggering_user_name="omar", run_type="manual"
    )
    before = cluster.tree()
    for work in (cancel_now, verify_cancel):
        with pytest.raises(AirflowFailException, match="belongs to run kafka_rebalance_cancel/cancel"):
            run_step(work, other, asked.xcom["decision"])
    for do in (stop_run, set_throttle):
        with pytest.raises(AirflowFailException, match="belongs to run kafka_rebalance_cancel/cancel"):
            run_step(do, other, str(asked.folder))
    assert cluster.tree() == before


# --- who asked ---


@pytest.fixture
def way_back(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SimulatedRun]:
    """The run that a roll-back of uma's starts, with a conf that may be edited on its way."""

    def make(edit: Callable[[dict[str, Any]], None] = lambda conf: None, by: str | None = "uma") -> SimulatedRun:
        run = batched_run(tmp_path, cluster, monkeypatch)
        run.hold()
        run.reassign()
        run.finish()
        asked = CancelRun(monkeypatch, by=by)  # type: ignore[arg-type]
        asked.dag_run.run_type = "manual" if by else "scheduled"
        asked.request("roll_back")
        conf = json.loads(json.dumps(asked.xcom["conf"]))
        edit(conf)
        back = SimulatedRun(tmp_path, cluster, monkeypatch, "back")
        back.dag_run.conf, back.dag_run.run_type = conf, "operator_triggered"
        back.dag_run.triggering_user_name = by
        back.policy_file.write_text(back.policy_file.read_text().replace("[uma]", "[uma, olive]"))
        return back

    return make


def planned(back: SimulatedRun) -> ApprovalOperator:
    back.plan(**{key: value for key, value in back.dag_run.conf.items() if key != "kafka_conn_id"})
    return ApprovalOperator(task_id="approve", approval=APPROVAL, run_folder=str(back.folder), nonce=back.xcom["nonce"])


def test_a_way_back_is_not_approved_by_who_asked_for_it(
    way_back: Callable[..., SimulatedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HITLOperator, "execute", lambda operator, context: None)
    back = way_back()
    operator = planned(back)
    back.dag_run.triggering_user_name = None  # an Airflow that does not hand the name on
    operator.execute({"dag_run": back.dag_run, "ti": SimpleNamespace(xcom_push=lambda key, value: None)})
    assert operator.assigned_users == [{"id": "olive", "name": "olive"}]


@pytest.mark.parametrize("key", ["plan", "kafka_conn_id", "internal_topics", "more"])
def test_a_conf_that_was_edited_on_its_way_is_refused(way_back: Callable[..., SimulatedRun], key: str) -> None:
    plan = json.dumps({"version": 1, "partitions": [{"topic": "idle", "partition": 0, "replicas": [4, 1]}]})
    back = way_back(lambda conf: conf.update({key: plan}))
    with pytest.raises(AirflowFailException, match="is not the one that run kafka_rebalance_cancel/cancel passed on"):
        back.plan(plan=plan)


def test_a_run_that_nobody_is_known_to_have_started_cannot_be_approved_once_its_conf_names_no_run(
    way_back: Callable[..., SimulatedRun],
) -> None:
    back = way_back(lambda conf: conf.pop("asked_in"), by=None)
    operator = planned(back)
    with pytest.raises(AirflowFailException, match="Airflow does not know who started the run"):
        operator.execute({"dag_run": back.dag_run})


def test_a_way_back_is_offered_though_the_policy_refuses_plans_that_end_less_even(
    way_back: Callable[..., SimulatedRun],
) -> None:
    back = way_back()
    back.policy_file.write_text(f"{back.policy_file.read_text()}less_even_plan: refuse\n")
    planned(back)
    assert json_files.read_json(back.folder, json_files.SETTINGS)["less_even_plan"] == "offer"
    back.dag_run.run_id, plan = "by hand", back.dag_run.conf["plan"]
    back.dag_run.conf = {"plan": plan, "candidates": [], "less_even_plan": "offer"}
    planned(back)
    assert json_files.read_json(back.folder, json_files.SETTINGS)["less_even_plan"] == "refuse"


def test_a_way_back_waits_for_no_window_of_the_policy(way_back: Callable[..., SimulatedRun]) -> None:
    back = way_back()
    back.policy_file.write_text(f"{back.policy_file.read_text()}windows: ['daily 22:00-06:00 Europe/Berlin']\n")
    planned(back)
    assert "recurring" not in json_files.read_json(back.folder, json_files.SNAPSHOT)["window"]
    back.dag_run.run_id, back.dag_run.conf = "by hand", {"plan": back.dag_run.conf["plan"], "candidates": []}
    planned(back)
    assert json_files.read_json(back.folder, json_files.SNAPSHOT)["window"]["recurring"]


@pytest.mark.parametrize("names", ["nobody", {"dag_id": "kafka_rebalance", "run_id": "none", "connection_id": "prod"}])
def test_a_conf_that_names_no_run_of_ours_is_refused(way_back: Callable[..., SimulatedRun], names: object) -> None:
    back = way_back(lambda conf: conf.update(asked_in=names))
    with pytest.raises(AirflowFailException, match="asked_in"):
        planned(back)


def test_what_a_folder_says_of_its_owner_survives_the_file(run: SimulatedRun) -> None:
    owner = read_folder_owner(run.folder)
    assert owner == FolderOwner("kafka_rebalance", "one", "kafka_in_process", 1)
    conf = hand_on(run.folder, {"kafka_conn_id": "kafka_in_process"}, started_run(run.dag_run))
    assert json_files.decode(FolderOwner, conf["asked_in"], "test") == owner
