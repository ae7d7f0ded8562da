"""Cancelling now on a simulated cluster, as 2.0 and 2.8 behave: request, approval, writes, verification."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from kafka_rebalance.cancel import cancel_now
from kafka_rebalance.cluster.with_zookeeper import ZooKeeperCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ReadError, RebalanceError, WriteError
from kafka_rebalance.rebalance import request_batch
from kafka_rebalance.run.stop_and_cancel_requests import read_control
from support.runs.cancel_run import BEFORE, CancelRun, begin, lists, release
from support.runs.rebalance_run import POLICY
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, freeze
from support.zookeeper.fake_zookeeper import REASSIGN


@pytest.mark.parametrize("steps", [0, 1])
def test_what_is_in_flight_goes_back_to_the_lists_recorded_and_nothing_is_left_behind(
    run: SimulatedRun, cluster: SimulatedCluster, canceller: CancelRun, steps: int
) -> None:
    """Requested and not yet taken up; copying."""
    begin(run, cluster, steps)
    canceller.approved()
    canceller.cancel()
    assert lists(cluster) == BEFORE
    assert REASSIGN not in cluster.fake.znodes
    release(run, cluster)
    found = canceller.verify()
    assert found["passed"] is True
    assert found["ends"]["in place"] == []
    assert len(found["ends"]["where it was before"]) == len(run.candidate.moves)


def test_a_move_whose_target_is_in_sync_is_taken_back_from_2_4_on_and_ends_below_it(
    run: SimulatedRun, cluster: SimulatedCluster, canceller: CancelRun
) -> None:
    """Below 2.4 the controller may be taking the old replicas away at this very moment."""
    begin(run, cluster, 2)
    canceller.approved()
    old = cluster.controller.version == "2.0"
    assert canceller.cancel()["cancelled"] == (0 if old else 2)
    release(run, cluster)
    ends = canceller.verify()["ends"]
    assert len(ends["in place"]) == (2 if old else 0)


def test_the_dry_run_shows_each_partition_and_writes_nothing(
    run: SimulatedRun, cluster: SimulatedCluster, begun: CancelRun
) -> None:
    before = cluster.tree()
    begun.request("cancel_now")
    operator = begun.ask()
    assert cluster.tree() == before
    assert not (run.folder / json_files.CONTROL).exists()
    first, second = run.candidate.batches
    fates = begun.fates()
    assert {fates[str(move.topic_partition)] for move in first.moves} == {"back"}
    assert {fates[str(move.topic_partition)] for move in second.moves} == {"queued"}
    for move in first.moves:
        assert f"`{move.topic_partition}`" in operator.body
    assert "Bytes of half-built copies are thrown away" in operator.body
    assert [option.split(" · ")[0] for option in operator.options] == ["cancel_now", "Reject"]


def test_what_somebody_else_has_changed_is_not_of_the_plan_that_is_approved(
    run: SimulatedRun, cluster: SimulatedCluster, begun: CancelRun
) -> None:
    topic, partition = run.candidate.batches[1].moves[0].topic_partition
    document = cluster.fake.json(f"/brokers/topics/{topic}")
    document["partitions"][str(partition)] = [4, 1, 3]
    cluster.fake.put_json(f"/brokers/topics/{topic}", document)
    begun.request("cancel_now")
    assert begun.fates()[f"{topic}-{partition}"] == "changed"
    assert [topic, partition] not in [move[:2] for move in begun.document["plan"]["moves"]]


def test_bytes_that_are_thrown_away_are_what_brokers_report(
    run: SimulatedRun, begun: CancelRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun.request("cancel_now")
    assert {step["bytes_thrown_away"] for step in begun.document["steps"]} == {0}  # they hold nothing yet
    held = {move.topic_partition: {move.added[0]: 700} for move in run.candidate.moves}
    disks = SimpleNamespace(replicas=held)
    monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_log_dirs", lambda *_: disks)
    begun.request("cancel_now")
    thrown = [step["bytes_thrown_away"] for step in begun.document["steps"]]
    assert sorted(thrown) == [0, 0, 700, 700]
    assert "1.37 KiB of unfinished copies are thrown away" in begun.ask().body

    def unreadable(*_: object) -> None:
        raise ReadError("simulated")

    monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_log_dirs", unreadable)
    begun.request("cancel_now")
    assert "unfinished copies of unknown size are thrown away" in begun.ask().body


def test_below_2_4_nothing_is_approved_without_the_sentence_that_names_what_is_deleted(
    cluster: SimulatedCluster, begun: CancelRun
) -> None:
    begun.request("cancel_now")
    sentence = begun.document["consent"]
    if cluster.controller.version != "2.0":
        assert sentence is None
        assert "/controller" not in begun.ask().body
        return
    assert sentence in begun.ask().body
    before = cluster.tree()
    for consent in (None, "", "yes", sentence[:-1]):
        with pytest.raises(AirflowFailException, match="word for word"):
            begun.answer(consent=consent)
    assert "decision" not in begun.xcom
    assert cluster.tree() == before
    begun.answer(consent=sentence)
    begun.cancel()
    assert lists(cluster) == BEFORE


def test_a_rejected_request_changes_nothing(run: SimulatedRun, cluster: SimulatedCluster, begun: CancelRun) -> None:
    before = cluster.tree()
    begun.request("cancel_now")
    with pytest.raises(DownstreamTasksSkipped):
        begun.answer("Reject")
    assert cluster.tree() == before
    assert read_control(run.folder).stop_after_batch is None


def test_only_the_policys_approvers_may_cancel(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(run, cluster)
    other = CancelRun(monkeypatch, "other")
    other.request("cancel_now")
    with pytest.raises(AirflowFailException, match="vera does not count"):
        other.answer(consent=other.document["consent"], user="vera")


def test_a_cancelled_run_requests_no_further_batch(run: SimulatedRun, approved: CancelRun) -> None:
    decision = json_files.read_json(approved.folder, json_files.DECISION)
    changed = decision | {"approved_by": {"id": "3", "name": "uma"}}  # as FAB has them
    approved.xcom["decision"]["decision_digest"] = json_files.write_json(approved.folder, json_files.DECISION, changed)
    approved.cancel()
    asked = read_control(run.folder)
    assert asked.cancelled is not None
    assert asked.stop_after_batch is not None
    assert asked.cancelled.by == "uma"


def test_who_follows_sees_the_batch_as_cancelled_and_the_run_stops_there(
    run: SimulatedRun, cluster: SimulatedCluster, canceller: CancelRun
) -> None:
    batch = begin(run, cluster)
    canceller.approved()
    canceller.cancel()
    requests = len(cluster.requests)
    event, _ = run.follow(batch, until=lambda: not (cluster.step() or True))
    assert event is not None
    assert event.state == "cancelled"
    assert "was cancelled by uma" in event.message
    with pytest.raises(AirflowFailException, match="was cancelled by uma"):
        run.resume(event)
    with pytest.raises(AirflowFailException, match="No further batch was requested"):
        run.request()  # cleared
    assert len(cluster.requests) == requests
    assert lists(cluster) == BEFORE


def test_a_cancel_that_is_repeated_finds_nothing_to_do(
    run: SimulatedRun, cluster: SimulatedCluster, approved: CancelRun
) -> None:
    assert approved.cancel()["cancelled"] == 2
    before = cluster.tree()
    assert approved.cancel()["cancelled"] == 0
    assert cluster.tree() == before  # but for the fence
    release(run, cluster)
    assert approved.cancel()["ended"] is True


def test_partitions_that_ended_before_the_answer_stay_where_they_were_approved_to_be(
    run: SimulatedRun, cluster: SimulatedCluster, approved: CancelRun
) -> None:
    for _ in range(20):
        cluster.step()
    assert approved.cancel()["cancelled"] == 0
    release(run, cluster)
    found = approved.verify()
    first, second = run.candidate.batches
    assert sorted(found["ends"]["in place"]) == sorted(str(move.topic_partition) for move in first.moves)
    assert len(found["ends"]["where it was before"]) == len(second.moves)


def test_a_batch_that_began_while_the_request_waited_is_cancelled_as_well(
    run: SimulatedRun, cluster: SimulatedCluster, canceller: CancelRun
) -> None:
    batch: int | None = begin(run, cluster)
    canceller.request("cancel_now")
    assert batch is not None
    event, _ = run.follow(batch, until=lambda: not (cluster.step() or True))
    assert event is not None
    assert run.resume(event) == 2
    cluster.step()
    canceller.answer(consent=canceller.document["consent"])
    assert canceller.cancel()["cancelled"] == 2
    first, second = run.candidate.batches
    for move in first.moves:
        assert cluster.replicas(move.topic_partition.topic)[move.topic_partition.partition] == list(move.after)
    for move in second.moves:
        assert cluster.replicas(move.topic_partition.topic)[move.topic_partition.partition] == list(move.before)


def test_a_partition_whose_data_only_the_new_replicas_hold_is_not_taken_back(
    run: SimulatedRun, cluster: SimulatedCluster, begun: CancelRun
) -> None:
    move = next(one for one in run.candidate.batches[0].moves if len(one.added) == 1)
    path = f"/brokers/topics/{move.topic_partition.topic}/partitions/{move.topic_partition.partition}/state"
    begun.approved()
    state = cluster.fake.json(path)
    cluster.fake.put_json(path, {**state, "isr": [move.added[0]], "leader": move.added[0]})
    cluster.controller.step = lambda: False  # type: ignore[method-assign]
    with pytest.raises(RebalanceError, match="would lose what only"):
        begun.cancel()
    holders = cluster.replicas(move.topic_partition.topic)[move.topic_partition.partition]
    assert move.added[0] in holders


@pytest.mark.parametrize("cluster", ["2.0"], indirect=True)
def test_another_tools_entry_beside_ours_stops_the_cancelling_below_2_4(
    cluster: SimulatedCluster, approved: CancelRun
) -> None:
    """From 2.4 on each partition is cancelled by itself."""
    asked = cluster.fake.json(REASSIGN)
    asked["partitions"].append({"topic": "idle", "partition": 0, "replicas": [2, 3]})
    cluster.fake.put_json(REASSIGN, asked)
    with pytest.raises(RebalanceError, match="also asks for idle-0"):
        approved.cancel()
    assert cluster.fake.json(REASSIGN) == asked


def test_a_policy_that_changed_since_the_approval_stops_it(
    run: SimulatedRun, cluster: SimulatedCluster, approved: CancelRun
) -> None:
    run.policy_file.write_text(POLICY + "partitions_per_batch: 3\n")
    before = cluster.tree()
    with pytest.raises(AirflowFailException, match="policy"):
        approved.cancel()
    assert cluster.tree() == before


def test_a_plan_that_was_tampered_with_is_not_carried_out(cluster: SimulatedCluster, approved: CancelRun) -> None:
    document = approved.document
    document["plan"]["moves"][0][2] = [4, 3]
    (approved.folder / json_files.CANCEL).write_text(json.dumps(document))
    before = cluster.tree()
    with pytest.raises(AirflowFailException, match="is not as it was at the approval"):
        approved.cancel()
    assert cluster.tree() == before


def test_a_throttle_that_is_still_held_fails_the_verification_and_says_whose_it_is(
    run: SimulatedRun, cluster: SimulatedCluster, approved: CancelRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    approved.cancel()
    monkeypatch.setattr("kafka_rebalance.cancel.cancel_now.RELEASE_SECONDS", 0)
    with pytest.raises(AirflowFailException, match=r"lock of kafka_rebalance/one.*release_throttle"):
        approved.verify()
    release(run, cluster)
    assert approved.verify()["passed"] is True


@pytest.mark.parametrize(
    "place",
    [
        (request_batch, "check_before_write"),
        (request_batch, "check_throttle_in_force"),
        (ZooKeeperCluster, "request_moves"),
    ],
)
@pytest.mark.parametrize("action", ["cancel_now", "stop_after_batch"])
def test_a_batch_that_is_about_to_be_requested_while_the_run_is_cancelled_or_stopped_is_not(
    run: SimulatedRun,
    cluster: SimulatedCluster,
    canceller: CancelRun,
    monkeypatch: pytest.MonkeyPatch,
    place: tuple[Any, str],
    action: str,
) -> None:
    """`reassign` has read that nobody asked to stop, and then looks at the brokers, which takes seconds."""
    run.hold()
    if action == "cancel_now":
        canceller.approved()
    else:
        canceller.request(action)
    freeze(monkeypatch, *place, canceller.cancel if action == "cancel_now" else canceller.stop)
    with pytest.raises((AirflowFailException, WriteError), match=r"No further batch|changed nothing in the cluster"):
        run.request()
    assert cluster.requests == []
    if action == "cancel_now":
        with pytest.raises(AirflowFailException, match="No further batch was requested"):
            run.request()  # tried again
        release(run, cluster)
        assert canceller.verify()["ends"]["in place"] == []


@pytest.mark.parametrize("cluster", ["2.8"], indirect=True)
def test_no_order_is_restored_beside_another_run_that_has_taken_the_cluster(
    cluster: SimulatedCluster, approved: CancelRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, real = len(cluster.requests), cancel_now.cancel_plan.out_of_order

    def taken(moves: Any, view: Any) -> Any:
        found = real(moves, view)
        if found:
            holder = cluster.fake.json("/kafka_rebalance/run")
            cluster.fake.put_json("/kafka_rebalance/run", {**holder, "run": "kafka_rebalance/other"})
        return found

    monkeypatch.setattr(cancel_now.cancel_plan, "out_of_order", taken)
    with pytest.raises(AirflowFailException, match=r"Run kafka_rebalance/other of .* now holds the cluster"):
        approved.cancel()
    assert len(cluster.requests) == requests


@pytest.mark.parametrize("cluster", ["2.0"], indirect=True)
def test_below_2_4_who_is_about_to_end_is_waited_for_before_anything_is_taken_back(
    run: SimulatedRun, cluster: SimulatedCluster, approved: CancelRun
) -> None:
    """A request for the others alone would leave its interim list for good."""
    topic, partition = run.candidate.batches[0].moves[0].topic_partition
    path = f"/brokers/topics/{topic}/partitions/{partition}/state"
    cluster.fake.put_json(path, {**cluster.fake.json(path), "isr": cluster.replicas(topic)[partition]})
    approved.cancel()
    release(run, cluster)
    assert approved.verify()["passed"] is True
