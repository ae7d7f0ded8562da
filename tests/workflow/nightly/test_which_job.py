"""What the nightly check proposes: balance, elections, or to go on without a broker that is away. All is simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.admin.log_dirs import BrokerDisks, LogDir
from kafka_rebalance.documents.verdict import Verdict
from kafka_rebalance.errors import ReadError
from kafka_rebalance.nightly import check_cluster
from kafka_rebalance.rebalance.snapshot import take_snapshot
from kafka_rebalance.run import ledger, snapshot_reader
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from support.runs.rebalance_run import CONNECTION, POLICY
from support.runs.simulated_cluster import SIZE_BYTES, SimulatedCluster, SimulatedRun, Step
from support.zookeeper.fake_zookeeper import put_topic


def lead_by_second(cluster: SimulatedCluster) -> None:
    """Lists are even, and brokers 1 and 2 lead everything."""
    document = cluster.fake.json("/brokers/topics/orders")
    document["partitions"] = {"0": [1, 2], "1": [2, 4], "2": [3, 1], "3": [4, 3]}
    cluster.fake.put_json("/brokers/topics/orders", document)
    for partition, leader in ((0, 1), (1, 2), (2, 1), (3, 3)):
        path = f"/brokers/topics/orders/partitions/{partition}/state"
        isr = document["partitions"][str(partition)]
        cluster.fake.put_json(path, {**cluster.fake.json(path), "leader": leader, "isr": isr})


def test_where_lists_are_even_and_leaders_are_not_elections_are_proposed(
    cluster: SimulatedCluster, check: Step
) -> None:
    lead_by_second(cluster)
    verdict = check()
    assert (verdict["resource"], verdict["propose"]) == ("leaders", True)
    assert verdict["conf"]["job"] == "elect"
    assert "2 partitions are not led by their preferred leader" in verdict["text"]


def test_no_election_is_proposed_of_topics_that_the_policy_leaves_out(
    run: SimulatedRun, cluster: SimulatedCluster, check: Step
) -> None:
    lead_by_second(cluster)
    run.policy_file.write_text(POLICY + "topics_out: [orders]\n")
    verdict = check()
    assert (verdict["past_limit"], verdict["propose"]) == (True, False)
    assert (
        "no topic may be moved: Kafka's own topics stay where they are, and so does what topics_out" in verdict["text"]
    )


@pytest.mark.parametrize(("limit", "tolerance"), [(0.1, 0.05), (0.2, None)])
def test_a_plan_for_a_low_limit_ends_well_within_it(
    run: SimulatedRun, cluster: SimulatedCluster, check: Step, limit: float, tolerance: float | None
) -> None:
    run.policy_file.write_text(POLICY + f"imbalance_limit: {limit}\n")
    verdict = check()
    assert verdict["propose"] is True
    assert verdict["conf"].get("tolerance") == tolerance


def lose(cluster: SimulatedCluster, broker: int) -> None:
    """It is registered no more, and nobody waits for it."""
    cluster.fake.delete(f"/brokers/ids/{broker}")
    for partition in range(4):
        path = f"/brokers/topics/orders/partitions/{partition}/state"
        state = cluster.fake.json(path)
        isr = [one for one in state["isr"] if one != broker]
        cluster.fake.put_json(path, {**state, "isr": isr, "leader": isr[0] if isr else -1})


def test_a_broker_that_is_down_fails_no_check_and_the_rest_is_scored(cluster: SimulatedCluster, check: Step) -> None:
    lose(cluster, 2)
    verdict = check()
    assert verdict["brokers_away"] == [2]
    assert verdict["skew"]["disk"] == pytest.approx(2.0), "broker 1 holds all, of three"
    assert "broker 2 is not registered, at least since" in verdict["text"]
    assert verdict["propose"] is False, "one night tells nothing of how long"
    assert "no plan is made while a broker is away" in verdict["text"]
    ((kept,), _) = ledger.read(airflow_deployment(), "balance", CONNECTION, 1)
    assert kept["brokers_away"] == [2]


def nights(away: dict[int, list[int] | None]) -> None:
    """Checks of {days ago: brokers that were away; None: of a version that did not look}."""
    for days, brokers in away.items():
        at = datetime.now(UTC) - timedelta(days=days)
        row = {"run_id": f"night-{days}", "past_limit": False, "brokers_away": brokers}
        ledger.append(airflow_deployment(), "balance", CONNECTION, f"night-{days}", at, [row])


@pytest.mark.parametrize(
    ("away", "job"),
    [
        ({1: [2], 2: [2], 3: []}, "replace"),
        ({1: [2], 2: [], 3: [2]}, None),
        ({1: [2], 2: None, 3: [2]}, None),
        ({}, None),
    ],
)
def test_going_on_without_a_broker_is_proposed_once_the_nights_say_it_is_away_long_enough(
    cluster: SimulatedCluster, check: Step, away: dict[int, Any], job: str | None
) -> None:
    nights(away)
    lose(cluster, 2)
    verdict = check()
    conf = verdict.get("conf", {})
    assert (verdict["propose"], conf.get("job")) == (job is not None, job)
    assert conf.get("replace") == ({"2": 3} if job else None)


def test_without_an_empty_broker_the_one_that_is_away_is_drained(
    run: SimulatedRun, cluster: SimulatedCluster, check: Step
) -> None:
    nights({1: [2], 2: [2]})
    run.policy_file.write_text(POLICY + "brokers_out: [3, 4]\n")
    lose(cluster, 2)
    verdict = check()
    assert (verdict["conf"]["job"], verdict["conf"]["drain"]) == ("drain", [2])


def test_partitions_that_nobody_leads_are_left_out_and_named(cluster: SimulatedCluster, check: Step) -> None:
    nights({1: [2], 2: [2]})
    path = "/brokers/topics/orders/partitions/3/state"
    cluster.fake.put_json(path, {**cluster.fake.json(path), "isr": [2], "leader": 2})
    lose(cluster, 2)
    verdict = check()
    assert "without 1 partition that nobody leads (orders-3)" in verdict["text"]
    assert (verdict["propose"], verdict["conf"]["replace"]) == (True, {"2": 3}), "the rest does not wait for it"
    assert "Start the brokers that hold them: else they are lost" in verdict["text"]


def test_partitions_that_wait_for_a_broker_that_has_just_gone_hold_the_proposal_back(
    cluster: SimulatedCluster, check: Step
) -> None:
    path = "/brokers/topics/orders/partitions/3/state"
    cluster.fake.put_json(path, {**cluster.fake.json(path), "isr": [2], "leader": 2})
    lose(cluster, 2)
    verdict = check()
    assert verdict["propose"] is False


def test_a_registered_broker_that_does_not_answer_fails_no_check_and_the_rest_is_scored(
    cluster: SimulatedCluster, check: Step
) -> None:
    cluster.silent = {2}
    verdict = check()
    assert verdict["brokers_unread"] == [2]
    assert verdict["skew"]["disk"] == pytest.approx(2.0), "broker 1 holds all that lies on the three that tell"
    assert "broker 2 does not tell its log dirs" in verdict["text"]
    assert "broker 2 does not tell its configs" in verdict["text"]
    assert (verdict["past_limit"], verdict["propose"]) == (True, False)
    assert "no rebalance is proposed: a plan needs what could not be read" in verdict["text"]
    ((kept,), _) = ledger.read(airflow_deployment(), "balance", CONNECTION, 1)
    assert (kept["brokers_unread"], kept["brokers_away"]) == ([2], [])


@pytest.mark.parametrize("silent", [{2}, set()])
def test_the_verdict_says_that_a_check_left_something_out(
    cluster: SimulatedCluster, written: Callable[[], Verdict], silent: set[int]
) -> None:
    cluster.silent = silent
    assert written().is_whole is not bool(silent)


def test_what_a_silent_broker_leads_is_measured_by_its_replicas_in_sync(cluster: SimulatedCluster, check: Step) -> None:
    cluster.silent = {1}
    verdict = check()
    assert verdict["skew"]["disk"] == pytest.approx(2.0), "broker 2 holds all that lies on the three that tell"
    assert "the offsets of 4 partitions cannot be read (orders-0" in verdict["text"]
    (rows, _) = ledger.read(airflow_deployment(), "metrics", CONNECTION, 1)
    assert [(row["size_bytes"], row["end_offset"]) for row in rows] == [(SIZE_BYTES, None)] * 4


def test_the_rest_is_compared_by_its_own_capacities(
    cluster: SimulatedCluster, check: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_log_dirs = snapshot_reader.sizes.read_log_dirs

    def told(*arguments: Any, **options: Any) -> BrokerDisks:
        found = read_log_dirs(*arguments, **options)
        capacities = {1: 100_000_000, 2: 900_000_000, 3: 200_000_000, 4: 200_000_000}
        return replace(found, log_dirs={b: (LogDir("/data", capacities[b], 50_000_000),) for b in found.log_dirs})

    monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_log_dirs", told)
    cluster.silent = {2}
    verdict = check()
    assert verdict["skew"]["disk"] == pytest.approx(4.0), (
        "broker 1 has a fifth of what the three can hold, and all bytes"
    )


def hide_sizes(monkeypatch: pytest.MonkeyPatch, hidden: set[tuple[str, int]]) -> None:
    """No broker tells these: the log dir of each replica is offline."""
    read_log_dirs = snapshot_reader.sizes.read_log_dirs

    def told(*arguments: Any, **options: Any) -> BrokerDisks:
        found = read_log_dirs(*arguments, **options)
        return replace(found, replicas={tp: held for tp, held in found.replicas.items() if tp not in hidden})

    monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_log_dirs", told)


def test_bytes_of_which_some_are_unknown_are_not_measured_and_the_rest_is(
    cluster: SimulatedCluster, check: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_sizes(monkeypatch, {("orders", 3)})
    verdict = check()
    assert verdict["skew"] == {"replicas": pytest.approx(1.0), "leaders": pytest.approx(3.0)}
    assert (
        "no replica in sync tells the size of 1 partition (orders-3): bytes on disk, bytes in and bytes out are unknown"
        in verdict["text"]
    )
    assert verdict["propose"] is False
    ((kept,), _) = ledger.read(airflow_deployment(), "balance", CONNECTION, 1)
    assert (kept["skew_disk"], kept["brokers_unread"]) == (None, [])
    assert len(ledger.read(airflow_deployment(), "metrics", CONNECTION, 1).rows) == 3, (
        "a size that is unknown is no sample"
    )


@pytest.mark.parametrize("silent", [{2}, set()])
def test_the_snapshot_of_a_rebalance_stays_strict(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, silent: set[int]
) -> None:
    cluster.silent = silent
    hide_sizes(monkeypatch, {("orders", 3)})
    with pytest.raises(ReadError):
        run_step(
            take_snapshot,
            run.dag_run,
            {"kafka_conn_id": CONNECTION},
            ti=SimpleNamespace(xcom_push=lambda *_: None),
        )


def test_where_no_broker_answers_the_check_fails(cluster: SimulatedCluster, check: Step) -> None:
    cluster.silent = {1, 2, 3, 4}
    with pytest.raises(ReadError):
        check()


def test_beside_a_broker_that_is_away_one_that_does_not_answer_holds_the_proposal_back(
    cluster: SimulatedCluster, check: Step
) -> None:
    nights({1: [2], 2: [2]})
    lose(cluster, 2)
    cluster.silent = {4}
    verdict = check()
    assert (verdict["brokers_away"], verdict["brokers_unread"]) == ([2], [4])
    assert verdict["skew"]["disk"] == pytest.approx(1.0), "broker 1 holds all, of two"
    assert (verdict["past_limit"], verdict["propose"]) == (True, False)
    assert "a plan needs what could not be read" in verdict["text"]


def test_a_partition_without_a_leader_fails_no_check_where_every_broker_is_registered(
    cluster: SimulatedCluster, check: Step
) -> None:
    """The only log dir in sync has failed, and its broker goes on."""
    path = "/brokers/topics/orders/partitions/3/state"
    cluster.fake.put_json(path, {**cluster.fake.json(path), "isr": [2], "leader": -1})
    verdict = check()
    assert verdict["skew"]["leaders"] == pytest.approx(3.0)
    assert "without 1 partition that nobody leads (orders-3)" in verdict["text"]
    assert (verdict["past_limit"], verdict["propose"]) == (True, False)
    assert "no plan is made while partitions have no leader" in verdict["text"]


def test_a_deletion_that_waits_for_a_broker_that_is_down_fails_no_check(cluster: SimulatedCluster, check: Step) -> None:
    nights({1: [2], 2: [2]})
    put_topic(cluster.fake, "old", {0: (2, 3)})
    lose(cluster, 2)
    cluster.fake.create("/admin/delete_topics/old", b"")
    verdict = check()
    assert verdict["skew"]["disk"] == pytest.approx(2.0), "broker 1 holds all that is not being deleted, of three"
    assert "without topics that are being deleted (old)" in verdict["text"]
    assert (verdict["propose"], verdict["conf"]["replace"]) == (True, {"2": 3}), "the deletion waits for broker 2 alone"


def test_a_deletion_that_waits_for_nobody_known_holds_the_proposal_back(cluster: SimulatedCluster, check: Step) -> None:
    nights({1: [2], 2: [2]})
    put_topic(cluster.fake, "old", {0: (1, 3)})
    lose(cluster, 2)
    cluster.fake.create("/admin/delete_topics/old", b"")
    verdict = check()
    assert (verdict["past_limit"], verdict["propose"]) == (True, False)
    assert "no plan is made while topics are being deleted" in verdict["text"]


def test_a_night_whose_row_cannot_be_read_tells_nothing_of_who_was_away(cluster: SimulatedCluster, check: Step) -> None:
    nights({1: [2], 2: [2], 3: [2]})
    at = datetime.now(UTC) - timedelta(days=2)
    kept = ledger.append(airflow_deployment(), "balance", CONNECTION, "night-2", at, [])
    kept.write_bytes(b"no Parquet")
    lose(cluster, 2)
    verdict = check()
    assert verdict["propose"] is False, "nobody knows whether it was there two days ago"


def test_with_the_policys_key_a_list_that_is_uneven_over_the_racks_counts_as_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, active: set[str]
) -> None:
    topics, zones = {"orders": {0: (1, 3, 5, 2), 1: (1, 2, 3, 4)}}, {1: "a", 2: "b", 3: "a", 4: "b", 5: "a", 6: "b"}
    found = []
    for key in ("", "more_replicas_than_racks: true\n"):
        cluster = SimulatedCluster(monkeypatch, topics, racks=zones)
        run = SimulatedRun(tmp_path, cluster, monkeypatch, run_id=f"scheduled__{len(key)}")
        run.policy_file.write_text(POLICY + key)
        found.append(run_step(check_cluster.check, run.dag_run, CONNECTION)["rack_violations"])
    assert found == [0, 1]
