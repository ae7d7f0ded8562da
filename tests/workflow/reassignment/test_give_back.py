"""A demote and its way back on a simulated cluster: each leader as before, and under whose approval."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.rebalance.give_back import GiveBack
from kafka_rebalance.rebalance.request import CandidateApproval
from kafka_rebalance.workflow import airflow_state
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from support.runs import rebalance_run
from support.runs.asked_run import answer_event, approval_context
from support.runs.set_clock import DAY, HOUR, Clock
from support.runs.simulated_cluster import RATE, TOPICS, SimulatedCluster, SimulatedRun

STATE = "/brokers/topics/{}/partitions/{}/state"
AUDIT = '{"version":1,"partitions":[{"topic":"audit","partition":0,"replicas":[1,2]}]}'
UNDER_ONE_APPROVAL = "demote_approves_give_back: true\n"
ASKED = CandidateApproval.__module__ + ".CandidateApproval"


@pytest.fixture(params=["2.0", "2.8"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    monkeypatch.setattr(HITLOperator, "execute", lambda operator, context: None)
    return SimulatedCluster(monkeypatch, TOPICS, request.param)


class Pair:
    """Runs of one cluster whose approvals Airflow remembers."""

    def __init__(self, root: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
        self.root, self.cluster, self.monkeypatch = root, cluster, monkeypatch
        self.policy = policy
        self.decisions: dict[tuple[str, str], object] = {}
        monkeypatch.setattr(airflow_state, "told_decision", lambda *run: self.decisions.get(run))

    def run(self, run_id: str, by: str = "olive", **params: Any) -> tuple[SimulatedRun, ApprovalOperator, Any]:
        """Planned, with its request; nobody has answered."""
        run = SimulatedRun(self.root, self.cluster, self.monkeypatch, run_id)
        run.policy_file.write_text(rebalance_run.POLICY + self.policy)
        run.dag_run.triggering_user_name = by
        run.plan(**params)
        behind = [EmptyOperator(task_id=name) for name in CandidateApproval.behind]
        context = approval_context(run.dag_run, run.xcom, behind)
        operator = ApprovalOperator(
            task_id="approve", approval=ASKED, run_folder=str(run.folder), nonce=run.xcom["nonce"]
        )
        operator.execute(context)
        return run, operator, context

    def carry_out(self, run: SimulatedRun) -> None:
        run.decision = run.xcom["decision"]
        self.decisions[run.dag_run.dag_id, run.dag_run.run_id] = run.decision
        run.hold()
        run.reassign()
        assert run.finish()["passed"]

    def demote(self, run_id: str = "demote", broker: int = 2) -> SimulatedRun:
        run, operator, context = self.run(run_id, job="leaders", drain=[broker])
        answer(operator, context)
        self.carry_out(run)
        return run

    def leaders(self) -> dict[str, dict[int, int]]:
        return {topic: self.cluster.leaders(topic) for topic in TOPICS}

    def lists(self) -> dict[str, dict[int, list[int]]]:
        return {topic: self.cluster.replicas(topic) for topic in TOPICS}


def answer(operator: ApprovalOperator, context: Any, user: str = "uma") -> None:
    operator.execute_complete(context, answer_event(operator.options[0], user, throttle_bytes_per_second=RATE))


@pytest.fixture
def pair(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> Pair:
    return Pair(tmp_path, cluster, monkeypatch, "")


@pytest.fixture
def trusting(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Its policy has `demote_approves_give_back`."""
    return Pair(tmp_path, cluster, monkeypatch, UNDER_ONE_APPROVAL)


def shrink(cluster: SimulatedCluster, topic: str, partition: int, broker: int) -> None:
    """The broker falls out of the ISR."""
    path = STATE.format(topic, partition)
    state = cluster.fake.json(path)
    cluster.fake.put_json(path, {**state, "isr": [one for one in state["isr"] if one != broker]})


def moves(run: SimulatedRun) -> set[tuple[Any, ...]]:
    candidate: list[Move] = run.candidate.moves
    return {(move.topic_partition, move.before, move.after) for move in candidate}


def test_each_leader_is_as_before_the_demote_with_an_approval_of_its_own(pair: Pair) -> None:
    leaders, lists = pair.leaders(), pair.lists()
    demote = pair.demote()
    assert 2 not in {leader for of in pair.leaders().values() for leader in of.values()}
    run, operator, context = pair.run("back", job="give_back")
    assert "decision" not in run.xcom, "a person is asked"
    assert operator.subject.startswith("Kafka kafka_in_process: give leadership back?")
    answer(operator, context)
    run.decision = run.xcom["decision"]
    assert moves(run) == {(tp, after, before) for tp, before, after in moves(demote) if before != after}
    assert not any(move.bytes_to_copy for move in run.candidate.moves)
    pair.carry_out(run)
    assert (pair.leaders(), pair.lists()) == (leaders, lists)
    assert pair.cluster.leftovers() == []


def test_nobody_is_asked_again_where_the_approver_of_the_demote_read_that_it_counts(trusting: Pair) -> None:
    leaders = trusting.leaders()
    demote, operator, context = trusting.run("demote", job="leaders", drain=[2])
    assert "Who approves this plan approves that too, for 1 d" in operator.body
    answer(operator, context)
    trusting.carry_out(demote)
    run, *_ = trusting.run("back", by="uma", job="give_back", demote_run_id="demote")
    decision = json_files.read_json(run.folder, json_files.DECISION)
    approved = json_files.read_json(demote.folder, json_files.DECISION)
    assert (decision["approved_by"], decision["approved_at"]) == (approved["approved_by"], approved["approved_at"])
    assert decision["note"] == f"Approved with the demote kafka_rebalance/demote, digest {approved['digest'][:8]}"
    trusting.carry_out(run)
    assert trusting.leaders() == leaders


def test_an_approval_that_did_not_say_so_counts_for_the_demote_alone(pair: Pair) -> None:
    pair.demote()
    pair.policy = UNDER_ONE_APPROVAL
    run, *_ = pair.run("back", job="give_back")
    assert "decision" not in run.xcom


def test_a_person_is_asked_if_airflow_no_longer_has_the_approval_of_the_demote(trusting: Pair) -> None:
    trusting.demote()
    trusting.decisions.clear()
    run, *_ = trusting.run("back", job="give_back")
    assert "decision" not in run.xcom


def test_a_person_is_asked_if_the_approval_of_the_demote_has_expired(
    trusting: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting.demote()
    clock = Clock.set_in(monkeypatch)
    clock.now += DAY + HOUR
    run, *_ = trusting.run("back", job="give_back")
    assert "decision" not in run.xcom


def test_a_person_is_asked_if_the_policy_has_changed_since_the_demote(trusting: Pair) -> None:
    trusting.demote()
    trusting.policy += "leader_changes_per_batch: 7\n"
    run, *_ = trusting.run("back", job="give_back")
    assert "decision" not in run.xcom


def test_a_plan_that_is_not_the_demote_in_reverse_has_no_approval(
    trusting: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting.demote()
    real, more = GiveBack.settings_of, Move(TopicPartition("idle", 0), (1, 3), (3, 1), 0)
    monkeypatch.setattr(
        GiveBack, "settings_of", lambda back, asked: real(replace(back, moves=(*back.moves, more)), asked)
    )
    run, *_ = trusting.run("back", job="give_back")
    assert "decision" not in run.xcom


def test_a_demote_whose_files_were_edited_into_an_approval_of_both_is_refused(pair: Pair) -> None:
    demote = pair.demote()
    pair.policy = UNDER_ONE_APPROVAL
    edited = json_files.read_json(demote.folder, json_files.SNAPSHOT) | {"approves_give_back": True}
    json_files.write_json(demote.folder, json_files.SNAPSHOT, edited)
    with pytest.raises(AirflowFailException, match="not as it was at the approval"):
        pair.run("back", job="give_back")


def test_a_decision_of_the_demote_that_airflow_does_not_know_is_refused(trusting: Pair) -> None:
    demote = trusting.demote()
    forged = json_files.read_json(demote.folder, json_files.DECISION) | {"approved_by": {"id": "eve", "name": "eve"}}
    json_files.write_json(demote.folder, json_files.DECISION, forged)
    with pytest.raises(AirflowFailException, match="is not the decision that was given in Airflow"):
        trusting.run("back", job="give_back")


def test_what_somebody_has_changed_since_stays_and_is_named(pair: Pair) -> None:
    pair.demote()
    pair.cluster.fake.put_json(
        "/brokers/topics/audit", {**pair.cluster.fake.json("/brokers/topics/audit"), "partitions": {"0": [1, 3]}}
    )
    pair.cluster.fake.put_json(
        STATE.format("audit", 0), {**pair.cluster.fake.json(STATE.format("audit", 0)), "isr": [1, 3], "leader": 1}
    )
    run, *_ = pair.run("back", job="give_back")
    back = json_files.read_json(run.folder, json_files.SNAPSHOT)["gives_back"]
    assert (back["run_id"], back["brokers"], back["partitions"]) == ("demote", [2], 1)
    assert back["left_out"] == ["audit-0 has replicas [1, 3], which somebody else has given it since"]


def test_it_waits_for_a_broker_that_is_not_in_sync_and_says_for_what(pair: Pair) -> None:
    pair.demote()
    shrink(pair.cluster, "orders", 2, 2)
    with pair.cluster.unchanged(), pytest.raises(ClusterNotReadyError) as refused:
        pair.run("back", job="give_back")
    assert "broker 2: it is to lead 2 partitions again, and is not in sync for 1 of them (orders-2)" in str(
        refused.value
    )
    pair.cluster.fake.delete("/brokers/ids/2")
    with pytest.raises(ClusterNotReadyError, match=r"it is to lead 2 partitions again .*, and is not registered"):
        pair.run("back", job="give_back")


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"demote_run_id": "none"}, "Run none is no verified demote"),
        ({"drain": [2]}, "takes its brokers and lists from the demote"),
        ({"plan": AUDIT}, "takes its brokers and lists from the demote"),
    ],
)
def test_what_gives_nothing_back_is_refused(pair: Pair, params: dict[str, Any], why: str) -> None:
    pair.demote()
    with pytest.raises(AirflowFailException, match=why):
        pair.run("back", job="give_back", **params)


def test_what_came_back_already_is_nothing_to_give_back(pair: Pair) -> None:
    pair.demote()
    run, operator, context = pair.run("back", job="give_back")
    answer(operator, context)
    pair.carry_out(run)
    with pytest.raises(
        AirflowFailException, match=r"nothing to give back of kafka_rebalance/demote: .* recorded lists"
    ):
        pair.run("again", job="give_back")
