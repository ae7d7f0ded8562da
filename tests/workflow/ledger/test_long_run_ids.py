"""Run ids as long as Airflow allows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.runs.simulated_cluster import FEWER_TOPICS, RACKS, TOPICS, SimulatedCluster, approved_run
from support.runs.topic_run import TopicRun

LONGEST = 250  # of a run id of Airflow's


@pytest.mark.parametrize("mark", ["x", "+"])
def test_a_run_with_the_longest_id_comes_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    cluster = SimulatedCluster(monkeypatch, FEWER_TOPICS)
    run_id = "manual__" + mark + "y" * (LONGEST - 9)
    assert len(run_id) == LONGEST
    run = approved_run(tmp_path, cluster, monkeypatch, run_id)
    run.hold()
    run.reassign()
    assert run.finish()["passed"]


def test_a_request_for_a_topic_with_the_longest_id_comes_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster: Any = SimulatedCluster(monkeypatch, TOPICS)
    cluster.broker_settings = {broker: {"delete.topic.enable": "true"} for broker in RACKS}
    run = TopicRun(tmp_path, cluster, monkeypatch)
    run.dag_run.run_id = "y" * LONGEST
    run.request(action="alter", topic="orders", config=["retention.ms=1000"])
    run.answer("alter")
    assert run.write()["configs"] == 1
