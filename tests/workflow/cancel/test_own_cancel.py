"""An approver who asks for `cancel_now` has approved it by that. Every other action needs a second person."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from support.runs.cancel_run import CancelRun, begin
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, leads_here_too


def test_the_only_approver_cancels_their_cluster_alone(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(run, cluster)
    asked = CancelRun(monkeypatch, by="uma")
    asked.request("cancel_now")
    if asked.document["consent"] is None:
        asked.ask()
    else:  # Kafka 2.0 cancels by znodes of the controller: the sentence has to be repeated all the same
        assert asked.ask().assigned_users == [{"id": "uma", "name": "uma"}]
        with pytest.raises(AirflowFailException, match="word for word"):
            asked.answer(consent=None)
        assert "decision" not in asked.xcom
        asked.answer(consent=asked.document["consent"])
    decision = json_files.read_json(asked.folder, json_files.DECISION)
    assert decision["approved_by"] == {"id": "uma", "name": "uma"}
    assert asked.cancel()["cancelled"] > 0


def test_a_policy_may_ask_for_a_second_person_and_the_first_task_says_that_there_is_none(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(run, cluster)
    run.policy_file.write_text(f"{run.policy_file.read_text()}cancel_needs_another_approver: true\n")
    asked = CancelRun(monkeypatch, by="uma")
    with pytest.raises(AirflowFailException, match="Nobody may approve: uma started the run"):
        asked.request("cancel_now")
    assert asked.xcom == {}


def test_another_controller_needs_a_second_person(run: SimulatedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = CancelRun(monkeypatch, by="uma")
    with pytest.raises(AirflowFailException, match="Nobody may approve: uma started the run"):
        asked.request("elect_controller")


def test_a_rate_above_the_approved_one_needs_a_second_person_and_a_lower_one_nobody(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(run, cluster)
    asked = CancelRun(monkeypatch, by="uma")
    assert asked.request("set_throttle", throttle_bytes_per_second=1_500_000)["next"] == "set_throttle"
    assert asked.set_throttle()["throttle_bytes_per_second"] == 1_500_000
    with pytest.raises(AirflowFailException, match="Nobody may approve: uma started the run"):
        CancelRun(monkeypatch, "higher", by="uma").request("set_throttle", throttle_bytes_per_second=3_000_000)


@pytest.mark.parametrize("kind", ["operator_triggered", "scheduled"])
def test_a_run_of_another_dag_that_carries_an_approvers_name_is_not_theirs(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    begin(run, cluster)
    asked = CancelRun(monkeypatch, by="uma")
    asked.dag_run.run_type = kind
    with pytest.raises(AirflowFailException, match="Nobody may approve: uma started the run"):
        asked.request("cancel_now")


def test_who_is_no_approver_still_needs_one(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(run, cluster)
    asked = CancelRun(monkeypatch, by="olive")
    asked.request("cancel_now")
    assert asked.ask().assigned_users == [{"id": "uma", "name": "uma"}]
    assert "decision" not in asked.xcom


def test_nobody_knows_who_asked_so_nobody_approves(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(run, cluster)
    asked = CancelRun(monkeypatch)
    asked.dag_run.triggering_user_name, asked.dag_run.run_type = None, "operator_triggered"
    asked.request("cancel_now")
    with pytest.raises(AirflowFailException, match="does not know who started"):
        asked.ask()


def test_the_first_task_of_a_rebalance_says_that_nobody_may_approve(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun(tmp_path, cluster, monkeypatch)
    run.dag_run.triggering_user_name = "uma"
    with pytest.raises(AirflowFailException, match="Nobody may approve: uma started the run"):
        run.plan(job="drain", drain=[2], topics_out=["idle"])
    assert not (tmp_path / "runs" / CONNECTION / "one" / "1" / json_files.SNAPSHOT).exists()


def test_whoever_stops_copies_does_not_wait_for_another_connections_damaged_policy(
    run: SimulatedRun, cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leads to the same cluster, so its limits count for whatever they limit, and they are unknown."""
    begin(run, cluster)
    run.policy_file.with_name("kafka_other.yaml").write_text("approvers: 7\n")
    leads_here_too("kafka_other", cluster)
    with pytest.raises(
        AirflowFailException, match=r"PolicyError: The connection kafka_other leads to the same cluster"
    ):
        CancelRun(monkeypatch, "rate", by="uma").request("set_throttle", throttle_bytes_per_second=1_500_000)
    assert CancelRun(monkeypatch, "stop", by="uma").request("stop_after_batch")["next"]
    asked = CancelRun(monkeypatch, "cancel", by="uma")
    asked.request("cancel_now")
    asked.ask()
    if asked.document["consent"] is not None:
        asked.answer(consent=asked.document["consent"])
    assert asked.cancel()["cancelled"] > 0
