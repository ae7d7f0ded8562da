"""`elect_controller` on a simulated cluster: who approves what, what stops it, and what became of the request."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from kafka_rebalance.cancel import elect_controller as election
from kafka_rebalance.cancel.cancel_file import CANCEL_FILE
from kafka_rebalance.cancel.words import approval_texts
from kafka_rebalance.errors import ExecutionError, RebalanceError
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.stop_and_cancel_requests import read_control
from kafka_rebalance.zookeeper.znodes import encode_reassignment
from support.runs.cancel_run import CancelRun, begin, lost_request
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, approved_run, freeze
from support.zookeeper.fake_zookeeper import REASSIGN, put_topic

GONE = TopicPartition("gone", 0)
REFUSED = (RebalanceError, AirflowFailException)  # by whether Airflow would try again


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    return approved_run(tmp_path, cluster, monkeypatch)


def approve(canceller: CancelRun) -> None:
    assert canceller.request("elect_controller")["next"] == "approve_election"
    canceller.answer("elect_controller", consent=canceller.document["consent"])


def epoch(cluster: SimulatedCluster) -> int:
    return int(cluster.fake.get("/controller_epoch")[0])


def test_a_request_of_what_is_gone_is_cleared_and_the_next_rebalance_runs(
    run: SimulatedRun, cluster: SimulatedCluster, canceller: CancelRun
) -> None:
    lost_request(cluster, {GONE: (3, 4)})
    with pytest.raises(RebalanceError, match="action elect_controller"):
        run.hold()
    run.release()
    before = cluster.tree()
    canceller.request("elect_controller")
    assert cluster.tree() == before, "asking writes nothing"
    subject, body = approval_texts(CANCEL_FILE.decode(canceller.document))
    assert "broker 1**, epoch 1" in body
    assert "no longer exists: the next controller drops it" in body
    assert "no leader is elected for a broker that fails" in body
    assert canceller.document["consent"] in body
    assert "elect another controller" in subject
    canceller.answer("elect_controller", consent=canceller.document["consent"])
    found = canceller.elect_controller()
    assert found == {"controller": 4, "epoch": 2, "deleted": True, "request": "cleared"}
    assert canceller.elect_controller() == {**found, "deleted": False}, "a retry deletes nothing twice"
    assert epoch(cluster) == 2
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True


def test_a_request_that_was_not_heard_is_carried_out_and_the_run_that_holds_the_cluster_goes_on(
    run: SimulatedRun, cluster: SimulatedCluster, canceller: CancelRun
) -> None:
    run.hold()
    assert run.request() == 1
    cluster.controller._taken = cluster.fake.znodes[REASSIGN].czxid  # it is deaf
    throttles = cluster.throttles()
    canceller.request("elect_controller")
    _, body = approval_texts(CANCEL_FILE.decode(canceller.document))
    assert "Run kafka_rebalance/one" in body
    assert "It goes on, with its lock and its throttle" in body
    assert "the next controller moves it" in body
    canceller.answer("elect_controller", consent=canceller.document["consent"])
    assert canceller.elect_controller()["request"] in ("taken up", "cleared")
    assert cluster.throttles() == throttles
    assert cluster.fake.json("/kafka_rebalance/run")["run"] == "kafka_rebalance/one"
    asked = read_control(run.folder)
    assert (asked.cancelled, asked.stop_after_batch) == (None, None)
    event, _ = run.follow(1, until=lambda: not (cluster.step() or True))
    assert event is not None
    assert event.state == "done"


@pytest.mark.parametrize("consent", [None, "yes", "delete /controller"])
def test_without_the_sentence_nothing_is_deleted(
    cluster: SimulatedCluster, canceller: CancelRun, consent: str | None
) -> None:
    lost_request(cluster, {GONE: (3, 4)})
    before = cluster.tree()
    canceller.request("elect_controller")
    with pytest.raises(AirflowFailException, match="word for word"):
        canceller.answer("elect_controller", consent=consent)
    with pytest.raises(AirflowFailException):
        canceller.answer("elect_controller", consent=canceller.document["consent"], user="olive")
    assert cluster.tree() == before


def test_a_request_that_moves_needs_no_other_controller(
    run: SimulatedRun, cluster: SimulatedCluster, canceller: CancelRun
) -> None:
    begin(run, cluster)
    with pytest.raises(REFUSED, match=r"at work on it .*Nothing was changed\. Let it end"):
        canceller.request("elect_controller")


def test_an_empty_request_and_one_that_still_changes_and_none_at_all_are_told(
    cluster: SimulatedCluster, canceller: CancelRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AirflowSkipException, match="there is nothing to clear"):
        canceller.request("elect_controller")
    cluster.fake.put_json(REASSIGN, {"version": 1, "partitions": []})
    cluster.controller._taken = cluster.fake.znodes[REASSIGN].czxid
    with pytest.raises(REFUSED, match="it names no partition"):
        canceller.request("elect_controller")
    cluster.fake.delete(REASSIGN)
    lost_request(cluster, {GONE: (3, 4)})
    more = encode_reassignment({GONE: (3, 4), TopicPartition("gone", 1): (3, 4)})
    freeze(monkeypatch, election, "check_controller_stable", lambda: cluster.fake.set(REASSIGN, more))
    with pytest.raises(REFUSED, match="have changed between two looks"):
        canceller.request("elect_controller")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"version": 2, "brokerid": 1, "timestamp": "1529210278988", "kraftControllerEpoch": 3}, "KRaft controller"),
        ({"version": 1, "brokerid": -1, "timestamp": "1529210278988"}, "no controller|not registered"),
    ],
)
def test_of_no_live_controller_none_is_made_to_stand_down(
    cluster: SimulatedCluster, canceller: CancelRun, document: object, why: str
) -> None:
    lost_request(cluster, {GONE: (3, 4)})
    approve(canceller)
    cluster.fake.put_json("/controller", document)
    before = cluster.tree()
    with pytest.raises(RebalanceError, match=why):
        CancelRun.request(canceller, "elect_controller")
    assert cluster.tree() == before


def test_an_election_storm_two_clusters_and_a_freeze_stop_it_before_and_after_the_approval(
    cluster: SimulatedCluster, canceller: CancelRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def storm(client: object, pause: object) -> None:
        raise RebalanceError("brokers resign as controller one after the other")

    def frozen(deployment: object, connection_id: str) -> None:
        raise RebalanceError("frozen")

    lost_request(cluster, {GONE: (3, 4)})
    approve(canceller)
    before = cluster.tree()
    for patched, made, why in (
        (f"{election.__name__}.check_controller_stable", storm, "one after the other"),
        ("kafka_rebalance.admin.cluster_view.read_cluster_id", lambda _: "other", "names two clusters"),
        ("kafka_rebalance.run.inputs.Deployment.check_not_frozen", frozen, "frozen"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(patched, made)
            with pytest.raises(REFUSED, match=why):
                canceller.elect_controller()
        assert cluster.tree() == before
    assert canceller.elect_controller()["request"] == "cleared"


def test_a_topic_that_is_made_again_after_the_approval_stops_it(
    cluster: SimulatedCluster, canceller: CancelRun
) -> None:
    """The next controller would move the new topic, which nobody has approved."""
    lost_request(cluster, {GONE: (3, 4)})
    approve(canceller)
    put_topic(cluster.fake, "gone", {0: (1, 2)})
    with pytest.raises(RebalanceError, match="gone-0 is no longer as it was shown"):
        canceller.elect_controller()
    assert epoch(cluster) == 1
    canceller.request("elect_controller")
    _, body = approval_texts(CANCEL_FILE.decode(canceller.document))
    assert "the next controller moves the partition of the new topic" in body
    assert "no throttle of a run limits the copies" in body


def test_where_the_next_controller_does_not_clear_it_either_that_is_an_error(
    cluster: SimulatedCluster, canceller: CancelRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_request(cluster, {GONE: (3, 4)})
    approve(canceller)
    monkeypatch.setattr(cluster.controller, "step", lambda: False)
    monkeypatch.setattr(election, "SETTLE_SECONDS", 0)
    with pytest.raises(ExecutionError, match=r"Broker 4 is controller now \(epoch 2\).*still lists gone-0"):
        canceller.elect_controller()
    assert epoch(cluster) == 2


def test_a_try_that_was_killed_before_the_next_controller_was_there_goes_on(
    cluster: SimulatedCluster, canceller: CancelRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_request(cluster, {GONE: (3, 4)})
    approve(canceller)
    elect = cluster.fake.after_write.pop()  # nobody follows
    monkeypatch.setattr(election, "ELECTION_SECONDS", 0)
    with pytest.raises(ExecutionError, match="no other broker is controller"):
        canceller.elect_controller()
    with pytest.raises(ExecutionError, match="no other broker is controller"):
        canceller.elect_controller()
    elect("delete", "/controller")
    assert canceller.elect_controller() == {"controller": 4, "epoch": 2, "deleted": False, "request": "cleared"}
