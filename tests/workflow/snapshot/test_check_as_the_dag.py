"""`kafka-rebalance check --policy` plans what a run of the Dag plans, and without the policy it says what differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_rebalance.command import main as command
from support.runs.rebalance_run import POLICY
from support.runs.simulated_cluster import RATE, TOPICS, SimulatedCluster, SimulatedRun

STRICT = f"{POLICY}replicas_per_broker: 6\npartitions_per_batch: 2\nprefer: fewest_bytes\n"


def checked(folder: Path, *more: str) -> dict[str, Any]:
    """proposals.json of the command, with the settings that the run has."""
    asked = ["--job", "drain", "--set", "drain=[2]", *more]
    done = CliRunner().invoke(command.main, ["check", *asked, *places(), "--out", str(folder / "look"), "--json"])
    assert done.exit_code in (0, command.ATTENTION), done.output
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def places() -> list[str]:
    return ["--zookeeper", SimulatedCluster.zookeeper, "--bootstrap-servers", SimulatedCluster.bootstrap_servers]


def digests(proposals: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["digest"] for one in proposals["candidates"]}


@pytest.mark.parametrize("rate", [RATE, None], ids=["throttle given", "the policy's highest"])
def test_the_same_policy_settings_and_throttle_give_the_plan_of_the_dag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: int | None
) -> None:
    cluster = SimulatedCluster(monkeypatch, TOPICS)
    run = SimulatedRun(tmp_path, cluster, monkeypatch)
    run.policy_file.write_text(STRICT)
    planned = run.plan(job="drain", drain=[2], throttle_bytes_per_second=rate)
    given = [] if rate is None else ["--throttle", str(rate)]
    told = checked(tmp_path, "--policy", str(run.policy_file), *given)
    assert told["recommended"] == planned["recommended"] is not None
    assert digests(told) == digests(planned)
    assert told["settings"] == planned["settings"]
    assert told["settings"]["replicas_per_broker"] == 6
    without = checked(tmp_path, *given)
    assert without["settings"]["policy_digest"] is None, "the policy of an earlier look is of that look"


@pytest.mark.parametrize("with_policy", [False, True])
def test_a_cluster_without_topics_gives_the_command_nothing_to_do_as_it_gives_the_dags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_policy: bool
) -> None:
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, {}), monkeypatch)
    policy = ["--policy", str(run.policy_file)] if with_policy else []
    done = CliRunner().invoke(command.main, ["check", *places(), *policy, "--out", str(tmp_path / "look")])
    assert done.exit_code == 0, done.output
    assert done.stdout == "Cluster simulated-cluster-0001 has no topics, so there is nothing to do.\n"
