"""Answers as Airflow's API takes them: with any JSON as the form. An answer counts as a whole, or not at all."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from kafka_rebalance.documents import json_files
from kafka_rebalance.run.approved_plan import read_approved
from kafka_rebalance.workflow.run_step import step_inputs
from support.airflow.approval_requests import SKEWED, Asked, World

WRONG_RATES: tuple[Any, ...] = (None, True, "2000000", 2_000_000.7, [2_000_000], 10**5000, 1e300, float("nan"), 0, -1)
WRONG_NOTES: tuple[Any, ...] = (5, {"a": 1}, ["go"], "x" * 10_001, "\ud800")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    def park(self: HITLOperator, context: Any) -> None:
        raise Asked

    monkeypatch.setattr(HITLOperator, "execute", park)
    asked = World(tmp_path, monkeypatch, SKEWED, {})
    asked.ask()
    return asked


def answer(world: World, options: list[Any], form: Any) -> None:
    event = {
        "chosen_options": options,
        "params_input": form,
        "responded_at": datetime(2026, 11, 21, tzinfo=UTC),
        "responded_by_user": {"id": "uma", "name": "uma"},
    }
    world.operator.execute_complete(world.context, event)


@pytest.mark.parametrize(
    "form",
    [
        {"throttle_bytes_per_second": 2_000_000},
        {"note": "go"},
        {"throttle_bytes_per_second": 2_000_000, "note": None, "more": 1},
        *({"throttle_bytes_per_second": rate, "note": None} for rate in WRONG_RATES),
        *({"throttle_bytes_per_second": 2_000_000, "note": note} for note in WRONG_NOTES),
    ],
)
def test_a_form_that_does_not_fit_decides_nothing_and_is_noted(world: World, form: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"^ApprovalError: The answer does not count"):
        answer(world, [world.option("light")], form)
    assert not (world.folder / json_files.DECISION).exists()
    assert "decision" not in world.xcom
    (row,) = world.noted
    assert (row["choice"], row["by"]) == (None, "uma")
    assert "does not count" in row["refused"]


@pytest.mark.parametrize("options", [[], ["light", "Reject"], [5]])
def test_an_answer_without_exactly_one_option_decides_nothing(world: World, options: list[Any]) -> None:
    with pytest.raises(AirflowFailException, match="is not for this plan"):
        answer(world, [world.option("light") if one == "light" else one for one in options], {})
    assert not (world.folder / json_files.DECISION).exists()


@pytest.mark.parametrize(
    ("form", "rate"),
    [
        ({}, 5_000_000),  # the rate that the request shows
        ({"throttle_bytes_per_second": 2_000_000.0, "note": None}, 2_000_000),
        ({"throttle_bytes_per_second": 1_000_000, "note": "a\x00b"}, 1_000_000),
    ],
)
def test_a_form_that_fits_counts_as_a_whole(world: World, form: Any, rate: int) -> None:
    answer(world, [world.option("light")], form)
    found = read_approved(step_inputs(world.dag_run), world.xcom["decision"])
    assert found.throttle_bytes_per_second == rate
    assert type(world.decision["throttle_bytes_per_second"]) is int


def test_a_rejection_counts_whatever_its_form_holds(world: World) -> None:
    with pytest.raises(DownstreamTasksSkipped):
        world.answer("Reject", throttle_bytes_per_second="slow", note={"a": 1}, more=5)
    assert (world.decision["choice"], world.decision["note"]) == ("Reject", "")


def test_a_stricter_policy_of_another_connection_to_the_cluster_binds_the_rate_of_an_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = {"conn_type": "kafka_admin_api", "host": "nowhere:9092", "extra": {"expected_cluster_id": "abc"}}
    monkeypatch.setenv("AIRFLOW_CONN_SAME", json.dumps(same))
    other = world.policy_file.with_name("same.yaml")
    other.write_text("approvers: [ole]\nmax_throttle_bytes_per_second: 3000000\n")
    operator = world.ask()
    assert operator.serialized_params["throttle_bytes_per_second"]["schema"]["maximum"] == 3_000_000
    with pytest.raises(AirflowFailException, match="outside the policy's 1000000 to 3000000"):
        world.answer(world.option("balanced"), throttle_bytes_per_second=4_000_000)
    assert not (world.folder / json_files.DECISION).exists()
    other.unlink()
    world.answer(world.option("balanced"), throttle_bytes_per_second=4_000_000)
    assert world.decision["throttle_bytes_per_second"] == 4_000_000
