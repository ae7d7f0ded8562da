"""What earlier versions left: today's code reads each file, trigger, XCom and lease, and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from airflow._shared.module_loading import import_string
from airflow.models.trigger import Trigger
from airflow.sdk.exceptions import AirflowFailException
from airflow.serialization.decoders import smart_decode_trigger_kwargs

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ClusterNotReadyError, UnwatchedError
from kafka_rebalance.run import ledger
from kafka_rebalance.run.ledger import TABLES
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.golden.chain import RecordedCluster, RecordedRun
from support.golden.planning import without_pictures
from support.golden.records import given
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import CONNECTION, open_lease
from support.upgrades.moments import AWAY, CLUSTER, RACK, START, VERSIONS, Moment, restore
from support.zookeeper.fake_zookeeper import REASSIGN, register

BACK = {"candidates": ["light"], "job": "drain", "drain": [AWAY]}
Left = tuple[RecordedRun, RecordedCluster, dict[str, Any]]


@pytest.fixture(params=VERSIONS)
def left(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Moment], Left]:
    """The run as that version had left it at a moment, in a folder of this test."""
    without_pictures(monkeypatch)
    return lambda moment: restore(request.param, moment, tmp_path, monkeypatch)


def answered(run: RecordedRun, airflow: dict[str, Any]) -> None:
    """uma presses a button that the earlier version has shown."""
    answer, request = given(START)["answer"], airflow["request"]
    (option,) = [one for one in request["options"] if one.startswith(answer["choice"])]
    run.take(run.event_of(option, airflow["now"], answer["throttle_bytes_per_second"], answer["note"]))


def fired(stored: dict[str, Any], meanwhile: Callable[[], object], patch: pytest.MonkeyPatch) -> Any:
    """The event of the trigger that Airflow makes from its row, as `TriggerRunner.create_triggers` does."""
    arguments = {name: smart_decode_trigger_kwargs(v) for name, v in Trigger._decrypt_kwargs(stored["kwargs"]).items()}
    trigger = import_string(stored["classpath"])(**arguments)

    async def sleep(seconds: float) -> None:
        meanwhile()

    patch.setattr(asyncio, "sleep", sleep)

    async def run() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    (event,) = asyncio.run(run())
    return event


def resumed(run: RecordedRun, stored: dict[str, Any], event: Any) -> int | None:
    """The method that the earlier version told Airflow to call."""
    return run._deferred(lambda operator: getattr(operator, stored["next_method"])({"dag_run": run.dag_run}, event))


def moved_as_approved(run: RecordedRun, cluster: RecordedCluster) -> None:
    for move in run.candidate.moves:
        assert cluster.replicas(move.topic_partition.topic)[move.topic_partition.partition] == list(move.after)
    assert cluster.leftovers() == []
    assert json_files.read_json(run.folder, json_files.VERIFICATION)["passed"] is True


def test_a_run_that_waits_for_approval_is_approved_and_carried_out(left: Callable[[Moment], Left]) -> None:
    run, cluster, airflow = left(Moment.WAITING)
    answered(run, airflow)
    run.hold()
    assert cluster.throttles() != {}
    assert run.reassign() == 3
    run.finish()
    moved_as_approved(run, cluster)


def test_an_approved_run_still_refuses_a_cluster_that_has_changed(left: Callable[[Moment], Left]) -> None:
    """The checks before the first write compare with the earlier version's snapshot."""
    run, cluster, airflow = left(Moment.WAITING)
    answered(run, airflow)
    cluster.fake.put_json("/cluster/id", {"version": "1", "id": "another-cluster-0002"})
    with cluster.unchanged(), pytest.raises(ClusterNotReadyError, match="another-cluster-0002"):
        run.hold()


def test_an_approved_run_still_refuses_what_somebody_else_has_moved(left: Callable[[Moment], Left]) -> None:
    run, cluster, airflow = left(Moment.WAITING)
    answered(run, airflow)
    for move in run.candidate.moves:
        cluster.change(move.topic_partition, (AWAY,))
    with pytest.raises(AirflowFailException, match=str(run.candidate.moves[0].topic_partition)):
        run.hold()
    assert cluster.throttles() == {}


def test_a_deferred_batch_is_followed_and_the_run_goes_on(
    left: Callable[[Moment], Left], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, cluster, airflow = left(Moment.DEFERRED)
    batch = resumed(run, airflow["trigger"], fired(airflow["trigger"], cluster.step, monkeypatch))
    while batch is not None:
        event, _ = run.follow(batch, until=lambda: not (cluster.step() or True))
        assert event is not None
        batch = run.resume(event)
    asked = [tuple(request) for request in cluster.requests]
    assert len(asked) == 2, "the first batch was requested by the earlier version"
    run.finish()
    moved_as_approved(run, cluster)


def test_a_retry_of_reassign_does_not_request_the_batch_under_way_again(left: Callable[[Moment], Left]) -> None:
    run, cluster, _ = left(Moment.DEFERRED)
    assert run.request() == 1
    assert cluster.requests == []


def test_a_paused_run_goes_on_when_the_broker_is_back(
    left: Callable[[Moment], Left], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, cluster, airflow = left(Moment.PAUSED)
    event = fired(airflow["trigger"], lambda: register(cluster.fake, AWAY, RACK), monkeypatch)
    assert resumed(run, airflow["trigger"], event) == 2


def test_the_janitor_puts_back_the_throttle_of_a_run_that_is_gone(
    left: Callable[[Moment], Left], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the lease of the earlier version, waits for the copies, and gives back lease and lock."""
    _, cluster, _ = left(Moment.DEFERRED)
    Airflow.answering(monkeypatch).states = {"one": "failed"}
    held = cluster.throttles()
    with pytest.raises(UnwatchedError, match="2 partitions copy under its throttle of 25000000"):
        tend()
    assert cluster.throttles() == held, "the copies are still in flight"
    cluster.controller.run()
    tend()
    tend()
    assert cluster.leftovers() == []
    assert open_lease(CLUSTER) is None


@pytest.mark.parametrize("copy", ["the znode", "the file"])
def test_either_copy_of_the_lease_puts_the_throttle_back(left: Callable[[Moment], Left], copy: str) -> None:
    run, cluster, _ = left(Moment.DEFERRED)
    if copy == "the file":
        cluster.fake.delete("/kafka_rebalance/lease")
    else:
        for path in (run.folder.parents[2] / json_files.LEASES).rglob("*.json"):
            path.unlink()
    cluster.controller.run()
    run.release()
    assert cluster.throttles() == {}


def test_a_new_run_takes_the_cluster_after_an_ended_one(
    left: Callable[[Moment], Left], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the lease that was given back, and adds to the ledger of the earlier version."""
    _, cluster, airflow = left(Moment.ENDED)
    days = 400
    before = {table: ledger.read(airflow_deployment(), table, CONNECTION, days) for table in TABLES}
    run = RecordedRun(tmp_path, cluster, monkeypatch, given(START) | {"params": BACK}, "two", lambda: None)
    run.plan_as_given(START)
    assert json_files.read_json(run.folder, json_files.ESTIMATE)["last"][0]["run_id"] == "one"
    request = run.ask()
    run.take(run.event_of(request.options[0], airflow["now"], request.params["throttle_bytes_per_second"], None))
    run.hold()
    run.reassign()
    run.finish()
    moved_as_approved(run, cluster)
    for table in ("decisions", "metrics", "outcomes", "plans"):
        now = ledger.read(airflow_deployment(), table, CONNECTION, days)
        assert now.unreadable == ()
        added = [row for row in now.rows if row not in before[table].rows]
        assert before[table].rows, table
        assert added, table
        assert len(now.rows) == len(before[table].rows) + len(added)


def test_every_table_of_the_ledger_is_read_with_todays_columns(left: Callable[[Moment], Left]) -> None:
    run, _, _ = left(Moment.ENDED)
    root = run.folder.parents[2] / ledger.LEDGER
    tables = sorted(path.name for path in root.iterdir())
    assert len(tables) > 4
    for table in tables:
        files = [pyarrow.parquet.read_table(path, partitioning=None) for path in (root / table).rglob("*.parquet")]
        found = ledger.read(airflow_deployment(), table, CONNECTION, 400)
        assert found.unreadable == ()
        assert len(found.rows) == sum(len(one) for one in files)
        assert found.rows or table == "audits", "that cluster has no finding"
        for name in files[0].column_names:
            written = [value for one in files for value in one[name].to_pylist()]
            assert sorted(map(str, written)) == sorted(str(row[name]) for row in found.rows), f"{table}.{name}"


def test_a_trigger_of_a_later_version_is_built_without_what_it_does_not_know(
    left: Callable[[Moment], Left], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a deployment was taken back."""
    _, cluster, airflow = left(Moment.DEFERRED)
    stored = airflow["trigger"]
    stored["kwargs"] = stored["kwargs"].replace("{", '{"later": {"x": 1}, ', 1)
    assert fired(stored, cluster.step, monkeypatch)["state"] == "done"
    assert REASSIGN not in cluster.fake.znodes
