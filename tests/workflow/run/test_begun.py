"""A run has begun by what it asked for and what the cluster shows of it; what strangers do is drift, and is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance import clock
from kafka_rebalance.errors import ExecutionError, WriteError
from kafka_rebalance.model.partition import TopicPartition
from support.kafka.recordings.cancelled_moves import cancel_by_api
from support.runs.cancel_run import CancelRun
from support.runs.rebalance_run import POLICY
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, batches, given_run
from support.zookeeper.fake_zookeeper import REASSIGN

EXPIRES = "approval_expires_after_seconds: 60\n"
Lists = Mapping[int, Sequence[int]]


@pytest.fixture(params=["2.0", "2.8"])
def version(request: pytest.FixtureRequest) -> str:
    """As a controller of that version writes."""
    return str(request.param)


Made = Callable[[Lists, Lists], tuple[SimulatedCluster, SimulatedRun]]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> Made:
    """A cluster with the topic `orders`, and an approved run to other lists of it, a partition a batch."""

    def make(now: Lists, approved: Lists) -> tuple[SimulatedCluster, SimulatedRun]:
        cluster = SimulatedCluster(monkeypatch, {"orders": now}, version)
        lists = {TopicPartition("orders", p): replicas for p, replicas in approved.items()}
        return cluster, given_run(tmp_path, cluster, monkeypatch, lists, EXPIRES)

    return make


def stranger_leaves(cluster: SimulatedCluster, partition: int, replicas: Sequence[int]) -> None:
    """What another tool's move leaves when it has ended."""
    path = "/brokers/topics/orders"
    document = cluster.fake.json(path)
    document["partitions"][str(partition)] = list(replicas)
    cluster.fake.put_json(path, document)
    state = cluster.fake.json(f"{path}/partitions/{partition}/state")
    leader = state["leader"] if state["leader"] in replicas else replicas[0]
    cluster.fake.put_json(f"{path}/partitions/{partition}/state", {**state, "leader": leader, "isr": list(replicas)})


def expire(monkeypatch: pytest.MonkeyPatch, run: SimulatedRun) -> None:
    """The approval was given longer ago than the policy lets it count."""
    monkeypatch.setattr(clock, "utc_now", lambda: datetime.now(UTC) + timedelta(hours=1))


def test_a_stranger_that_reorders_an_approved_reorder_is_drift_and_not_our_batch(made: Made) -> None:
    cluster, run = made({0: (1, 2, 3), 1: (3, 2, 1)}, {0: (3, 2, 1), 1: (1, 2, 3)})
    stranger_leaves(cluster, 0, (2, 1, 3))
    with (
        cluster.unchanged(),
        pytest.raises(AirflowFailException, match=r"orders-0: replicas are now \[2, 1, 3\].*starts from \[1, 2, 3\]"),
    ):
        run.hold()


def test_a_reorder_by_strangers_after_the_throttle_is_not_waited_for(made: Made) -> None:
    cluster, run = made({0: (1, 2, 3), 1: (3, 2, 1)}, {0: (3, 2, 1), 1: (1, 2, 3)})
    run.hold()
    stranger_leaves(cluster, 0, (2, 1, 3))
    with pytest.raises(AirflowFailException, match=r"orders-0: replicas are now \[2, 1, 3\]"):
        run.request()
    assert cluster.requests == []


@pytest.mark.parametrize("list_left", [(1, 4, 2), (1, 4), (2, 4)], ids=["extended", "as approved", "elsewhere"])
@pytest.mark.parametrize("wrong", ["expired", "policy changed", "drift"])
def test_what_strangers_have_moved_makes_no_old_approval_executable(
    made: Made, monkeypatch: pytest.MonkeyPatch, list_left: Sequence[int], wrong: str
) -> None:
    cluster, run = made({0: (1, 2), 1: (1, 3)}, {0: (1, 4), 1: (2, 3)})
    stranger_leaves(cluster, 0, list_left)
    words = r"orders-0: replicas are now"
    if wrong == "expired":
        expire(monkeypatch, run)
        words = "ApprovalError: The approval of .* has expired"
    elif wrong == "policy changed":
        run.policy_file.write_text(f"{POLICY}partitions_per_batch: 2\n{EXPIRES}")
        words = "The policy has changed"
    before = cluster.tree()
    for _ in range(2):
        with pytest.raises(AirflowFailException, match=words):
            run.hold()
        with pytest.raises(AirflowFailException, match=words):
            run.request()
    assert cluster.requests == []
    assert cluster.tree() == before


def test_an_approved_move_that_strangers_have_begun_is_not_followed_as_ours(made: Made) -> None:
    cluster, run = made({0: (1, 2), 1: (1, 3)}, {0: (1, 4), 1: (2, 3)})
    cluster.fake.put_json(
        REASSIGN, {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 4]}]}
    )
    cluster.step()
    for task in (run.hold, run.request):
        with pytest.raises(ExecutionError, match=r"orders-0 to \[1, 4\], as approved, but this run has not asked"):
            task()
    cluster.controller.run()
    with pytest.raises(AirflowFailException, match=r"orders-0: replicas are now \[1, 4\]"):
        run.hold()


def test_a_later_batch_that_strangers_have_made_is_named_before_the_next_is_requested(made: Made) -> None:
    cluster, run = made({0: (1, 2), 1: (1, 3), 2: (2, 3)}, {0: (1, 4), 1: (2, 3), 2: (4, 3)})
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    stranger_leaves(cluster, 1, (2, 3))
    with pytest.raises(AirflowFailException, match=r"No further move was requested(.|\n)*orders-1: replicas are now"):
        run.request()
    assert len(cluster.requests) == 1


def test_what_a_worker_died_before_requesting_and_strangers_have_made_is_not_ours(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, run = made({0: (1, 2), 1: (1, 3)}, {0: (1, 4), 1: (2, 3)})
    run.hold()
    cluster.fake.fail_next("commit", REASSIGN, took_effect=False, error=SystemExit())
    with pytest.raises(SystemExit):
        run.request()
    assert batches(run)[0]["state"] == "requesting"
    stranger_leaves(cluster, 0, (1, 4))
    expire(monkeypatch, run)
    for task in (run.hold, run.request):
        with pytest.raises(AirflowFailException, match="has expired"):
            task()
    assert cluster.requests == []


def test_what_a_worker_died_after_requesting_is_ours_and_goes_on(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, run = made({0: (1, 2), 1: (1, 3)}, {0: (1, 4), 1: (2, 3)})
    run.hold()
    cluster.fake.fail_next("commit", REASSIGN, took_effect=True, error=SystemExit())
    with pytest.raises(SystemExit):
        run.request()
    assert batches(run)[0]["state"] == "requesting"
    expire(monkeypatch, run)
    assert run.request() == 1
    cluster.controller.run()
    assert run.request() == 2, "the run has begun before its approval expired"


def test_notes_of_an_earlier_version_that_has_requested_are_believed(made: Made) -> None:
    """Without the fence under which they were made."""
    cluster, run = made({0: (1, 2), 1: (1, 3)}, {0: (1, 4), 1: (2, 3)})
    run.hold()
    assert run.request() == 1
    path = run.folder / "batches.json"
    path.write_text(path.read_text().replace('"generation"', '"unknown"'))
    cluster.step()
    assert run.request() == 1


def test_a_cancel_leaves_alone_what_somebody_else_has_begun_as_approved(
    made: Made, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    cluster, run = made({0: (1, 2), 1: (1, 3)}, {0: (1, 4), 1: (2, 3)})
    run.hold()
    assert run.request() == 1
    cluster.step()
    asked = [{"topic": "orders", "partition": 0, "replicas": [1, 4]}]
    if version == "2.0":  # a stranger adds to the request, which only the next controller reads
        asked += [{"topic": "orders", "partition": 1, "replicas": [2, 3]}]
        cluster.fake.put_json(REASSIGN, {"version": 1, "partitions": asked})
    else:
        document = cluster.fake.json("/brokers/topics/orders")
        document["partitions"]["1"] = [2, 3, 1]
        document["adding_replicas"]["1"], document["removing_replicas"]["1"] = [2], [1]
        cluster.fake.put_json("/brokers/topics/orders", document)
    monkeypatch.setattr("kafka_rebalance.admin.reassignments.can_cancel", lambda _: version != "2.0")
    monkeypatch.setattr(
        "kafka_rebalance.admin.reassignments.cancel_reassignments",
        lambda _, tps: cancel_by_api(cluster.fake, cluster.controller, tps),
    )
    canceller = CancelRun(monkeypatch)
    canceller.request("cancel_now")
    assert canceller.fates() == {"orders-0": "back", "orders-1": "changed"}
    notes = {step["partition"]: step["note"] for step in canceller.document["steps"]}
    assert "by somebody else: this run has not asked for it" in notes["orders-1"]
    canceller.answer(consent=canceller.document["consent"])
    if version == "2.0":
        with pytest.raises(WriteError, match="also asks for orders-1"):
            canceller.cancel()
        return
    assert canceller.cancel()["cancelled"] == 1
    assert cluster.replicas("orders") == {0: [1, 2], 1: [2, 3, 1]}
