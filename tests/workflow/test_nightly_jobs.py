"""What the nightly check proposes: balance, elections, or to go on without a broker that is away. All is simulated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from in_process_run import CONNECTION, POLICY
from kafka_rebalance.workflow.ledger import ledger
from kafka_rebalance.workflow.nightly import balance, proposing
from simulated_cluster import SimulatedCluster, SimulatedRun


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """All of it on brokers 1 and 2 of four."""
    return SimulatedCluster(monkeypatch, {"orders": dict.fromkeys(range(4), (1, 2))})


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    """Only for its connection, policy and folders: the check is a Dag of its own."""
    return SimulatedRun(tmp_path, cluster, monkeypatch, run_id="scheduled__1")


@pytest.fixture
def active(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The runs of `kafka_rebalance` that Airflow would call running: none."""
    running: set[str] = set()
    monkeypatch.setattr(proposing, "is_active", lambda dag_id, run_id: run_id in running)
    return running


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
    run: SimulatedRun, cluster: SimulatedCluster, active: set[str]
) -> None:
    lead_by_second(cluster)
    verdict = balance.check(CONNECTION, run.dag_run)
    assert (verdict["resource"], verdict["propose"]) == ("leaders", True)
    assert verdict["conf"]["job"] == "elect"
    assert "2 partitions are not led by their preferred leader" in verdict["text"]


def lose(cluster: SimulatedCluster, broker: int) -> None:
    """It is registered no more, and nobody waits for it."""
    cluster.fake.delete(f"/brokers/ids/{broker}")
    for partition in range(4):
        path = f"/brokers/topics/orders/partitions/{partition}/state"
        state = cluster.fake.json(path)
        isr = [one for one in state["isr"] if one != broker]
        cluster.fake.put_json(path, {**state, "isr": isr, "leader": isr[0] if isr else -1})


def test_a_broker_that_is_down_fails_no_check_and_the_rest_is_scored(
    run: SimulatedRun, cluster: SimulatedCluster, active: set[str]
) -> None:
    lose(cluster, 2)
    verdict = balance.check(CONNECTION, run.dag_run)
    assert verdict["brokers_away"] == [2]
    assert verdict["skew"]["disk"] == pytest.approx(2.0), "broker 1 holds all, of three"
    assert "broker 2 is not registered, at least since" in verdict["text"]
    assert verdict["propose"] is False, "one night tells nothing of how long"
    assert "no plan is made while a broker is away" in verdict["text"]
    ((kept,), _) = ledger.read("balance", CONNECTION, 1)
    assert kept["brokers_away"] == [2]


def nights(away: dict[int, list[int] | None]) -> None:
    """Checks of {days ago: brokers that were away; None: of a version that did not look}."""
    for days, brokers in away.items():
        at = datetime.now(UTC) - timedelta(days=days)
        row = {"run_id": f"night-{days}", "past_limit": False, "brokers_away": brokers}
        ledger.append("balance", CONNECTION, f"night-{days}", at, [row])


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
    run: SimulatedRun, cluster: SimulatedCluster, active: set[str], away: dict[int, Any], job: str | None
) -> None:
    nights(away)
    lose(cluster, 2)
    verdict = balance.check(CONNECTION, run.dag_run)
    conf = verdict.get("conf", {})
    assert (verdict["propose"], conf.get("job")) == (job is not None, job)
    assert conf.get("replace") == ({"2": 3} if job else None)


def test_without_an_empty_broker_the_one_that_is_away_is_drained(
    run: SimulatedRun, cluster: SimulatedCluster, active: set[str]
) -> None:
    nights({1: [2], 2: [2]})
    run.policy_file.write_text(POLICY + "brokers_out: [3, 4]\n")
    lose(cluster, 2)
    verdict = balance.check(CONNECTION, run.dag_run)
    assert (verdict["conf"]["job"], verdict["conf"]["drain"]) == ("drain", [2])


def test_partitions_that_nobody_leads_are_left_out_and_named(
    run: SimulatedRun, cluster: SimulatedCluster, active: set[str]
) -> None:
    nights({1: [2], 2: [2]})
    path = "/brokers/topics/orders/partitions/3/state"
    cluster.fake.put_json(path, {**cluster.fake.json(path), "isr": [2], "leader": 2})
    lose(cluster, 2)
    verdict = balance.check(CONNECTION, run.dag_run)
    assert "without 1 partitions that nobody leads (orders-3)" in verdict["text"]
    assert verdict["propose"] is False
