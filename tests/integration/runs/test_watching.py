"""Two triggers at one batch, and a stop within one, on real brokers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kazoo.client import KazooClient

from kafka_rebalance.documents import json_files
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.rebalance.verify import verify
from kafka_rebalance.run import stop_and_cancel_requests
from kafka_rebalance.workflow import triggers
from kafka_rebalance.workflow.run_step import run_step
from kafka_rebalance.workflow.triggers import BatchTrigger
from kafka_rebalance.zookeeper.reader import read_cluster_view
from support.kafka.on_versions import ON_OLDEST_AND_NEWEST
from support.runs.rebalance_run import CONNECTION, POLICY, InProcessRun

REASSIGN = "/admin/reassign_partitions"
RATE = 50_000_000  # bytes per second


@ON_OLDEST_AND_NEWEST
def test_two_triggers_watch_and_one_writes_until_somebody_asks_to_stop(
    tmp_path: Path, cluster: LocalCluster, fresh_topic_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triggers, "YOUNGEST_EVENT_SECONDS", 0.0)  # no scheduler runs here
    name = fresh_topic_name()
    cluster.create_topic(name, dict.fromkeys(range(3), (1, 2)))
    cluster.produce(name, dict.fromkeys(range(3), 1_000_000))
    run = InProcessRun(tmp_path, cluster, monkeypatch)
    (tmp_path / "policies" / f"{CONNECTION}.yaml").write_text(POLICY + "partitions_per_batch: 1\n")
    run.plan(topics_in=[name], job="drain", drain=[1])
    run.approve("light", RATE)
    approved = time.monotonic()
    run.hold()
    assert run.request() == 1
    print(f"approval to first write: {time.monotonic() - approved:.2f} s")

    client = KazooClient(cluster.zookeeper)
    client.start()
    try:
        assert run.deferred is not None
        _, arguments = run.deferred.trigger.serialize()
        events = asyncio.run(_both(arguments))
        assert events == [{"state": "done", "batch": 1, "message": ""}] * 2
        assert [run.resume(event) for event in events] == [2, 2]
        stop_and_cancel_requests.ask_stop(run.folder, "olive")
        _, arguments = run.deferred.trigger.serialize()
        done, again = asyncio.run(_both(arguments))
        for event in (done, again):
            with pytest.raises(AirflowFailException, match=r"StoppedError: .* 2 of 3 batches \(2 partitions\)"):
                run.resume(event)
        assert client.exists(REASSIGN) is None
        run.release()
        with pytest.raises(AirflowFailException, match="1 approved partitions were not moved"):
            run_step(verify, run.dag_run, run.decision)
        moved = {tp: state.replicas for tp, state in read_cluster_view(client, [name]).partitions.items()}
        assert sum(1 in replicas for replicas in moved.values()) == 1
        left = json_files.read_json(run.folder, json_files.VERIFICATION)["not_moved"]["partitions"]
        assert left == [str(tp) for tp, replicas in moved.items() if 1 in replicas]
    finally:
        client.stop()
        client.close()


async def _both(arguments: dict[str, Any]) -> list[Any]:
    async def fire() -> Any:
        (payload,) = [event.payload async for event in BatchTrigger(**arguments).run()]
        return payload

    return list(await asyncio.gather(fire(), fire()))
