"""Another rate for a run's copies, and what of an approval in `kafka_rebalance_cancel` grows old or leads elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.cancel.set_throttle import raise_throttle
from kafka_rebalance.documents import json_files
from kafka_rebalance.run.stop_and_cancel_requests import read_control
from kafka_rebalance.workflow.run_step import run_step
from support.runs.cancel_run import BEFORE, CancelRun, lists, release
from support.runs.rebalance_run import open_lease
from support.runs.simulated_cluster import ON_ANY_VERSION, RATE, SimulatedCluster, SimulatedRun


def rates_set(cluster: SimulatedCluster) -> set[str]:
    return {value for entity in cluster.throttles() for value in cluster.config(entity).values() if value.isdigit()}


def test_another_rate_is_in_force_when_the_task_has_ended(
    run: SimulatedRun, cluster: SimulatedCluster, begun: CancelRun
) -> None:
    asked = begun.request("set_throttle", throttle_bytes_per_second=1_500_000)
    assert asked["next"] == "set_throttle"
    assert "1.43 MiB/s per broker; 1.91 MiB/s was approved" in asked["said"][1]
    assert begun.set_throttle()["throttle_bytes_per_second"] == 1_500_000
    # As Airflow lets it through for an integer, from a trigger by REST. Back up to what was approved asks nobody.
    begun.request("set_throttle", throttle_bytes_per_second=2_000_000.0)
    assert begun.set_throttle()["throttle_bytes_per_second"] == 2_000_000
    assert rates_set(cluster) == {"2000000"}
    for _ in range(20):
        cluster.step()
    release(run, cluster)


@ON_ANY_VERSION
def test_a_rate_above_the_approved_one_is_set_once_an_approver_says_so(
    run: SimulatedRun, cluster: SimulatedCluster, begun: CancelRun
) -> None:
    begun.request("set_throttle", throttle_bytes_per_second=3_000_000)
    before = cluster.tree()
    with pytest.raises(AirflowFailException, match="above the approved 2000000 bytes/s of kafka_rebalance/one"):
        begun.set_throttle()
    assert cluster.tree() == before
    run.policy_file.write_text(run.policy_file.read_text().replace("[uma]", "[uma, olive]"))
    with pytest.raises(AirflowFailException, match="policy"):
        begun.ask()
    begun.request("set_throttle", throttle_bytes_per_second=3_000_000)
    operator = begun.ask()
    assert operator.assigned_users == [{"id": "uma", "name": "uma"}], "olive asked for it"
    assert "throttle of kafka_rebalance/one up to 2.86 MiB/s?" in operator.subject
    assert "2.86 MiB/s per broker; 1.91 MiB/s was approved" in operator.body
    with pytest.raises(AirflowFailException, match="olive"):
        begun.answer("set_throttle", user="olive")
    assert begun.raise_throttle(3_000_000)["throttle_bytes_per_second"] == 3_000_000
    assert rates_set(cluster) == {"3000000"}
    lease = open_lease("simulated-cluster-0001")
    assert lease is not None
    assert [change.by for change in lease.rate_changes] == ["uma"]


@ON_ANY_VERSION
@pytest.mark.parametrize("edit", ["bytes_per_second", "run", "cluster_id"])
def test_a_rate_other_than_the_one_that_was_approved_is_not_set(
    cluster: SimulatedCluster, begun: CancelRun, edit: str
) -> None:
    begun.request("set_throttle", throttle_bytes_per_second=3_000_000)
    begun.answer("set_throttle")
    written = begun.document
    other = written[edit] + 1 if edit == "bytes_per_second" else f"{written[edit]}-2"
    json_files.write_json(begun.folder, json_files.CANCEL, {**written, edit: other})
    before = cluster.tree()
    with pytest.raises(AirflowFailException, match="is not as it was at the approval"):
        run_step(raise_throttle, begun.dag_run, begun.xcom["decision"])
    assert cluster.tree() == before


# --- what grows old, and clusters that were exchanged ---


def grow_old(canceller: CancelRun) -> None:
    """The same decision, of 90 days ago."""
    written = json_files.read_json(canceller.folder, json_files.DECISION)
    written["approved_at"] = (datetime.now(UTC) - timedelta(days=90)).isoformat()
    digest = json_files.write_json(canceller.folder, json_files.DECISION, written)
    canceller.xcom["decision"]["decision_digest"] = digest


def test_an_approved_cancelling_expires_unless_it_has_begun(
    run: SimulatedRun, cluster: SimulatedCluster, approved: CancelRun
) -> None:
    before = cluster.tree()
    grow_old(approved)
    with pytest.raises(AirflowFailException, match="has expired"):
        approved.cancel()
    assert cluster.tree() == before
    assert read_control(run.folder).cancelled is None
    approved.approved()
    approved.cancel()
    grow_old(approved)
    approved.cancel()
    assert lists(cluster) == BEFORE


@ON_ANY_VERSION
def test_an_approved_rate_expires(cluster: SimulatedCluster, begun: CancelRun) -> None:
    begun.request("set_throttle", throttle_bytes_per_second=3_000_000)
    begun.answer("set_throttle")
    grow_old(begun)
    before = cluster.tree()
    with pytest.raises(AirflowFailException, match="has expired"):
        run_step(raise_throttle, begun.dag_run, begun.xcom["decision"])
    assert cluster.tree() == before


@pytest.mark.parametrize("work", ["cancel", "set_throttle", "raise_throttle"])
def test_brokers_of_another_cluster_than_zookeepers_are_neither_cancelled_nor_throttled(
    run: SimulatedRun, cluster: SimulatedCluster, begun: CancelRun, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """Somebody edits the connection's bootstrap_servers while the request waits."""
    if work == "cancel":
        begun.approved()
    else:
        begun.request("set_throttle", throttle_bytes_per_second=RATE + 1 if work == "raise_throttle" else RATE - 1)
    if work == "raise_throttle":
        begun.answer("set_throttle")
    before = cluster.tree()
    monkeypatch.setattr("kafka_rebalance.admin.cluster_view.read_cluster_id", lambda _: "another-cluster-000002")
    do = {"cancel": begun.cancel, "set_throttle": begun.set_throttle}.get(
        work, lambda: run_step(raise_throttle, begun.dag_run, begun.xcom["decision"])
    )
    with pytest.raises(AirflowFailException, match="names two clusters"):
        do()
    assert cluster.tree() == before
    assert read_control(run.folder).cancelled is None
    with pytest.raises(AirflowFailException, match="names two clusters"):
        begun.request("cancel_now")


@ON_ANY_VERSION
@pytest.mark.parametrize(("rate", "why"), [(None, "needs throttle_bytes_per_second"), (5, "outside the policy's")])
def test_a_rate_beyond_the_policy_is_refused(
    cluster: SimulatedCluster, begun: CancelRun, rate: int | None, why: str
) -> None:
    before = cluster.tree()
    with pytest.raises(AirflowFailException, match=why):
        begun.request("set_throttle", throttle_bytes_per_second=rate)
    assert cluster.tree() == before


@ON_ANY_VERSION
def test_a_policy_that_changed_since_it_was_asked_for_leaves_the_rate_as_it_is(
    run: SimulatedRun, cluster: SimulatedCluster, begun: CancelRun
) -> None:
    begun.request("set_throttle", throttle_bytes_per_second=1_500_000)
    run.policy_file.write_text(run.policy_file.read_text() + "growth_limit: 0.5\n")
    before = cluster.tree()
    with pytest.raises(AirflowFailException, match="The policy has changed"):
        begun.set_throttle()
    assert cluster.tree() == before
