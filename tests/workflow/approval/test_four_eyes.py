"""Who may approve a rebalance that another Dag has started: that is what Airflow and that Dag's run say, not a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.run.inputs import StartedRun
from kafka_rebalance.run.requester import hand_on
from kafka_rebalance.run.run_folder import create_run_folder
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.airflow.approval_requests import SKEWED, Asked, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    def park(self: HITLOperator, context: Any) -> None:
        raise Asked

    monkeypatch.setattr(HITLOperator, "execute", park)
    return World(tmp_path, monkeypatch, SKEWED, {})


def test_a_run_of_an_unknown_person_cannot_be_approved(world: World) -> None:
    world.dag_run.triggering_user_name = None
    with pytest.raises(AirflowFailException, match="Airflow does not know who started the run"):
        world.operator.execute(world.context)


def test_a_nightly_run_may_be_approved_by_any_approver(world: World) -> None:
    world.dag_run.triggering_user_name, world.dag_run.run_type = None, "operator_triggered"
    world.asked_by(None, automatic=True, plan_by=None)
    night = StartedRun("kafka_balance_check", "night", None, "scheduled")
    folder, _ = create_run_folder(airflow_deployment(), "prod", night)
    world.dag_run.conf = hand_on(folder, {"kafka_conn_id": "prod"}, night)
    assert [user["id"] for user in world.ask().assigned_users] == ["uma", "olive"]


def test_a_snapshot_that_was_edited_into_a_nightly_one_may_not_be_approved(world: World) -> None:
    world.dag_run.triggering_user_name, world.dag_run.run_type = None, "operator_triggered"
    world.asked_by(None, automatic=True, plan_by=None)
    with pytest.raises(AirflowFailException, match="Airflow does not know who started the run"):
        world.operator.execute(world.context)
