"""Stopping, going back and changing the rate on a simulated cluster; and what is said where nothing runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from kafka_rebalance.cancel import cancel_now
from kafka_rebalance.cancel import request as cancel_request
from kafka_rebalance.cancel.roll_back import RollBack
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.kafka.reassignment_json import parse_reassignment
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.rebalance import batch_notes
from kafka_rebalance.run.stop_and_cancel_requests import read_control
from support.runs.cancel_run import BEFORE, CancelRun, begin, lists, release
from support.runs.simulated_cluster import ON_ANY_VERSION, SimulatedCluster, SimulatedRun, freeze, given_run
from support.zookeeper.fake_zookeeper import put_topic

# --- stopping, and where nothing runs ---


def test_stopping_says_what_remains_undone_and_touches_no_cluster(
    run: SimulatedRun, cluster: SimulatedCluster, begun: CancelRun
) -> None:
    before = cluster.tree()
    said = begun.request("stop_after_batch")["said"]
    second = run.candidate.batches[1]
    assert f"{len(second.moves)} partitions in 1 batch remain undone" in said[1]
    found = begun.stop()
    assert (found["running"], found["batches"], found["partitions"]) == (1, (2,), 2)
    asked = read_control(run.folder)
    assert asked.stop_after_batch is not None
    assert (asked.stop_after_batch.by, asked.cancelled) == ("olive", None)
    assert cluster.tree() == before


@ON_ANY_VERSION
@pytest.mark.parametrize("action", ["stop_after_batch", "cancel_now", "set_throttle"])
def test_where_nothing_runs_it_says_so_and_all_is_skipped(
    run: SimulatedRun, cluster: SimulatedCluster, canceller: CancelRun, action: str
) -> None:
    """The run waits for its approval, or was approved: it holds nothing yet."""
    before = cluster.tree()
    with pytest.raises(AirflowSkipException, match="No rebalance runs on cluster simulated-cluster-0001"):
        canceller.request(action, throttle_bytes_per_second=2_000_000)
    assert cluster.tree() == before


@ON_ANY_VERSION
def test_a_run_that_ended_between_request_and_stop_is_said_to_have_ended(
    run: SimulatedRun, cluster: SimulatedCluster, canceller: CancelRun
) -> None:
    run.hold()
    canceller.request("stop_after_batch")
    run.reassign()
    run.release()
    assert canceller.stop()["ended"] is True
    assert not (run.folder / json_files.CONTROL).exists()


@ON_ANY_VERSION
def test_another_airflows_run_cannot_be_cancelled_from_here(cluster: SimulatedCluster, begun: CancelRun) -> None:
    holder = cluster.fake.json("/kafka_rebalance/run")
    cluster.fake.put_json("/kafka_rebalance/run", {**holder, "owner": "http://other:8080"})
    with pytest.raises(AirflowFailException, match="of http://other:8080"):
        begun.request("cancel_now")


@ON_ANY_VERSION
@pytest.mark.parametrize("written", [None, b"", b'{"format_version": 1}', b'{"format_version": 9}'])
def test_a_run_is_found_beside_a_later_attempt_that_is_half_written(
    run: SimulatedRun, begun: CancelRun, written: bytes | None
) -> None:
    """Somebody has cleared its first task, and what that began to write cannot be read, or not yet."""
    later = run.folder.parent / "2"
    later.mkdir()
    if written is not None:
        (later / json_files.DECISION).write_bytes(written)
    begun.request("stop_after_batch")
    begun.stop()
    assert read_control(run.folder).stop_after_batch is not None


@ON_ANY_VERSION
def test_where_no_attempt_of_the_run_can_be_read_that_is_said_and_nothing_done(
    run: SimulatedRun, begun: CancelRun
) -> None:
    (run.folder / json_files.DECISION).write_text("{")
    with pytest.raises(AirflowFailException, match=r"decision.json is not JSON"):
        begun.request("cancel_now")


@ON_ANY_VERSION
@pytest.mark.parametrize("action", ["stop_after_batch", "cancel_now", "set_throttle"])
def test_a_connection_that_leads_to_another_cluster_now_is_refused(
    cluster: SimulatedCluster, begun: CancelRun, action: str
) -> None:
    cluster.fake.put_json("/cluster/id", {"version": "1", "id": "another-cluster-000002"})
    with pytest.raises(RebalanceError, match="now leads to cluster another-cluster-000002"):
        begun.request(action, throttle_bytes_per_second=3_000_000)


@ON_ANY_VERSION
@pytest.mark.parametrize("action", ["cancel_now", "set_throttle"])
def test_without_a_policy_nothing_is_cancelled_and_no_rate_changed(
    run: SimulatedRun, begun: CancelRun, action: str
) -> None:
    run.policy_file.unlink()
    with pytest.raises(AirflowFailException, match="There is no policy file"):
        begun.request(action, throttle_bytes_per_second=3_000_000)


def test_who_stops_and_who_cancels_at_once_both_get_what_they_asked(
    run: SimulatedRun, cluster: SimulatedCluster, begun: CancelRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopper, second = (CancelRun(monkeypatch, name) for name in ("stop", "second"))
    stopper.request("stop_after_batch")
    begun.approved()
    second.approved()
    stopper.stop()
    freeze(monkeypatch, cancel_now.cancel_plan, "plan_cancel", second.cancel)
    begun.cancel()
    assert lists(cluster) == BEFORE
    asked = read_control(run.folder)
    assert (asked.stop_after_batch.by, asked.cancelled.by) == ("olive", "uma")  # type: ignore[union-attr]
    release(run, cluster)
    assert begun.verify()["passed"] is second.verify()["passed"] is True


# --- going back ---


@pytest.fixture
def moved(run: SimulatedRun) -> Callable[[], SimulatedRun]:
    def carry_out() -> SimulatedRun:
        run.hold()
        run.reassign()
        assert run.finish()["passed"] is True
        return run

    return carry_out


def test_the_way_back_is_a_plan_of_its_own_and_ends_where_it_began(
    moved: Callable[[], SimulatedRun],
    cluster: SimulatedCluster,
    canceller: CancelRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = moved()
    after = cluster.tree()
    asked = canceller.request("roll_back")
    assert asked["next"] == "roll_back"
    assert cluster.tree() == after
    conf = canceller.xcom["conf"]
    recorded = {move.topic_partition: move.before for move in run.candidate.moves}
    assert parse_reassignment(conf["plan"]) == recorded
    assert parse_reassignment((canceller.folder / "roll_back.json").read_text()) == recorded
    back = SimulatedRun(tmp_path, cluster, monkeypatch, "back")
    proposals = back.plan(**{key: value for key, value in conf.items() if key not in ("kafka_conn_id", "reason")})
    assert [candidate["name"] for candidate in proposals["candidates"]] == ["given"]
    assert proposals["recommended"] == "given"
    assert proposals["candidates"][0]["moved_bytes"] == canceller.document["bytes"] > 0
    back.approve("given", 2_000_000)
    back.hold()
    back.reassign()
    assert back.finish()["passed"] is True
    assert lists(cluster) == BEFORE


def test_a_way_back_has_a_way_back_of_its_own(
    moved: Callable[[], SimulatedRun],
    cluster: SimulatedCluster,
    canceller: CancelRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved()
    there = lists(cluster)
    for number, (name, end) in enumerate((("back", BEFORE), ("and there again", there))):
        # Which run began last is told by the second, and a test's runs begin in one.
        begun = datetime(2999, 1, 1, 0, 0, number, tzinfo=UTC)
        monkeypatch.setattr(batch_notes, "clock", SimpleNamespace(utc_second=lambda begun=begun: begun))
        asked = CancelRun(monkeypatch, f"for {name}")
        asked.request("roll_back")
        conf = {key: asked.xcom["conf"][key] for key in ("plan", "candidates", "internal_topics")}
        again = SimulatedRun(tmp_path, cluster, monkeypatch, name)
        again.plan(**conf)
        again.approve("given", 2_000_000)
        again.hold()
        again.reassign()
        assert again.finish()["passed"] is True
        assert lists(cluster) == end


def test_a_topic_that_was_made_again_since_has_no_way_back(
    moved: Callable[[], SimulatedRun], cluster: SimulatedCluster, canceller: CancelRun
) -> None:
    moved()
    now = cluster.replicas("audit")
    cluster.fake.delete("/brokers/topics/audit", recursive=True)
    put_topic(cluster.fake, "audit", now, version=cluster.controller.version)
    canceller.request("roll_back")
    assert canceller.document["left_out"] == ["audit-0 is of a topic that was deleted and made again since"]
    assert "audit" not in canceller.xcom["conf"]["plan"]


@ON_ANY_VERSION
def test_the_way_back_ticks_internal_topics_only_where_it_moves_some(
    moved: Callable[[], SimulatedRun],
    cluster: SimulatedCluster,
    canceller: CancelRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved()
    canceller.request("roll_back")
    assert canceller.xcom["conf"]["internal_topics"] is False
    internal = Move(TopicPartition("__consumer_offsets", 0), (3, 2), (1, 2), 1)
    monkeypatch.setattr(cancel_request, "plan_roll_back", lambda *_: RollBack((internal,), (), 0))
    canceller.request("roll_back")
    assert canceller.xcom["conf"]["internal_topics"] is True


def test_a_topic_of_our_own_that_begins_with_two_underscores_has_a_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy does not allow Kafka's internal topics, and this is none of them."""
    cluster = SimulatedCluster(monkeypatch, {"__audit": {0: (1, 2)}, "orders": {0: (2, 1)}})
    run = given_run(tmp_path, cluster, monkeypatch, {TopicPartition("__audit", 0): (1, 3)})
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True
    asked = CancelRun(monkeypatch)
    asked.request("roll_back")
    conf = {key: asked.xcom["conf"][key] for key in ("plan", "candidates", "internal_topics")}
    back = SimulatedRun(tmp_path, cluster, monkeypatch, "back")
    assert back.plan(**conf)["recommended"] == "given"


@ON_ANY_VERSION
def test_a_run_that_cannot_be_read_makes_the_last_one_unknown_and_named_ones_not(
    moved: Callable[[], SimulatedRun], cluster: SimulatedCluster, canceller: CancelRun
) -> None:
    run = moved()
    other = run.folder.parents[1] / "another" / "1"
    other.mkdir(parents=True)
    (other / json_files.BATCHES).write_text('{"format_version": 9}')
    with pytest.raises(AirflowFailException, match=r"format_version 9.* Name the run in run_id"):
        canceller.request("roll_back")
    assert canceller.request("roll_back", run_id="one")["run"] == "kafka_rebalance/one"


def test_what_cannot_go_back_is_named_before_anything_starts(
    moved: Callable[[], SimulatedRun], cluster: SimulatedCluster, canceller: CancelRun
) -> None:
    moved()
    cluster.fake.delete("/brokers/ids/2")
    with pytest.raises(AirflowSkipException, match="was on broker 2, which is not registered"):
        canceller.request("roll_back")


@ON_ANY_VERSION
def test_going_back_waits_until_the_run_has_ended(begun: CancelRun) -> None:
    with pytest.raises(RebalanceError, match="Stop or cancel it"):
        begun.request("roll_back")


@ON_ANY_VERSION
def test_a_run_that_is_not_known_and_a_cluster_that_was_never_moved_have_no_way_back(canceller: CancelRun) -> None:
    with pytest.raises(AirflowSkipException, match="No run has moved anything"):
        canceller.request("roll_back")
    with pytest.raises(AirflowSkipException, match="Run nobody's has moved nothing"):
        canceller.request("roll_back", run_id="nobody's")


def test_after_a_cancel_the_batches_that_ended_can_go_back(
    run: SimulatedRun, cluster: SimulatedCluster, canceller: CancelRun
) -> None:
    batch = begin(run, cluster)
    event, _ = run.follow(batch, until=lambda: not (cluster.step() or True))
    assert event is not None
    assert run.resume(event) == 2
    cluster.step()
    canceller.approved()
    canceller.cancel()
    release(run, cluster)
    canceller.request("roll_back")
    first = run.candidate.batches[0]
    assert set(parse_reassignment(canceller.xcom["conf"]["plan"])) == {move.topic_partition for move in first.moves}
    assert canceller.document["unchanged"] == 2
