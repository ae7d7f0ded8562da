"""`kafka-rebalance check` and `explain` on real clusters: what they say, and that they write nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from kazoo.client import KazooClient

from kafka_rebalance.admin import clients
from kafka_rebalance.admin.cluster_view import read_view
from kafka_rebalance.admin.configs import read_broker_configs, read_cannot_cordon, read_topic_configs
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.command.main import main
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.run import snapshot_reader

LISTS = {number: (1, 2) if number % 2 else (2, 1) for number in range(8)}


@pytest.fixture(scope="module", params=[pytest.param("3.9.2", marks=pytest.mark.long), "3.9.2-kraft"])
def started(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    version, _, kraft = request.param.partition("-")
    with LocalCluster(version, brokers=4, racks=2, kraft=bool(kraft)) as running:
        yield running


@pytest.fixture(scope="module")
def look_without_topics(started: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """What the command says before the cluster has its first topic."""
    return run("check", *addresses(started), "--out", str(tmp_path_factory.mktemp("look")))


@pytest.fixture(scope="module")
def cluster(started: LocalCluster, look_without_topics: Result) -> LocalCluster:
    started.create_topic("orders", LISTS)
    started.produce("orders", dict.fromkeys(LISTS, 200_000))
    return started


@pytest.fixture(autouse=True)
def _no_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_reader, "STORM_PAUSE_SECONDS", 0.1)


def addresses(cluster: LocalCluster) -> list[str]:
    with_zookeeper = [] if cluster.kraft else ["--zookeeper", cluster.zookeeper]
    return ["--bootstrap-servers", cluster.bootstrap_servers, *with_zookeeper]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def written(cluster: LocalCluster) -> Mapping[str, Any]:
    """What a command could have written: znodes with their versions, or lists and configs of brokers and topics."""
    if cluster.kraft:
        with open_wire(KafkaConnection(cluster.bootstrap_servers)) as wire:
            view = read_view(wire)
            topics = {tp.topic for tp in view.partitions}
            lists = {str(tp): partition.replicas for tp, partition in view.partitions.items()}
            configs = read_topic_configs(wire, sorted(topics)), read_broker_configs(wire, sorted(view.brokers))
            return {"lists": lists, "configs": configs}
    client = KazooClient(cluster.zookeeper)
    client.start()
    try:
        found, waiting = {}, ["/"]
        while waiting:
            path = waiting.pop()
            content, stat = client.get(path)
            found[path] = (content, stat.version)
            waiting += [f"{path.rstrip('/')}/{child}" for child in client.get_children(path)]
        return found
    finally:
        client.stop()
        client.close()


def test_of_a_cluster_without_topics_it_says_that_there_is_nothing_to_do(look_without_topics: Result) -> None:
    assert look_without_topics.exit_code == 0, look_without_topics.output
    assert look_without_topics.stdout.endswith("has no topics, so there is nothing to do.\n")


def test_a_kafka_below_4_3_cannot_cordon_a_broker_and_is_not_asked_to(cluster: LocalCluster) -> None:
    before = written(cluster)
    connection = KafkaConnection(cluster.bootstrap_servers)
    assert read_cannot_cordon(connection, [1, 4]) == {1: "", 4: ""}
    assert written(cluster) == before


def test_a_check_says_what_is_wrong_writes_its_report_and_nothing_to_the_cluster(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    before = written(cluster)
    done = run("check", *addresses(cluster), "--out", str(tmp_path))
    assert done.exit_code == 1, done.output
    assert "4 brokers" in done.stdout
    assert "is recommended" in done.stdout
    assert "reading the cluster" in done.stderr
    (report,) = tmp_path.glob("cluster/*/1/report.html")
    assert str(report) in done.stdout
    assert "orders" in report.read_text()
    assert written(cluster) == before


def test_a_script_gets_the_proposals_as_json(cluster: LocalCluster, tmp_path: Path) -> None:
    done = run("check", *addresses(cluster), "--out", str(tmp_path), "--json", "--job", "elect")
    assert (done.exit_code, json.loads(done.stdout)["recommended"]) == (0, None)


def test_a_plan_is_scored_beside_our_own(cluster: LocalCluster, tmp_path: Path) -> None:
    def explained(lists: Mapping[int, tuple[int, ...]]) -> Result:
        plan = [{"topic": "orders", "partition": number, "replicas": replicas} for number, replicas in lists.items()]
        (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": plan}))
        return run("explain", str(tmp_path / "plan.json"), *addresses(cluster), "--out", str(tmp_path / "out"))

    before = written(cluster)
    worse = explained({0: (1, 2)})
    assert worse.exit_code == 1, worse.output
    assert "Given:" in worse.stdout
    assert "bytes on disk" in worse.stdout
    wrong = explained({0: (1, 99)})
    assert wrong.exit_code == 2
    assert "99" in wrong.stderr
    assert written(cluster) == before


def moves_in(folder: Path) -> list[Any]:
    columns = ["candidate", "topic", "partition", "after", "batch"]
    return list(pq.read_table(folder / "moves", columns=columns).to_pylist())


def test_a_check_says_that_a_run_has_a_policy_and_plans_as_it_does_if_it_is_given(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    before = written(cluster)
    alone = run("check", *addresses(cluster), "--out", str(tmp_path))
    assert "Planned without a policy, at 47.7 MiB a second" in alone.stdout
    assert "at most 10 % of the cluster's bytes by default" in alone.stdout
    policy = tmp_path / "policy.yaml"
    policy.write_text("approvers: [ada]\nmax_bytes_share: 1.0\nmax_throttle_bytes_per_second: 50000000\n")
    as_a_run = run("check", *addresses(cluster), "--out", str(tmp_path), "--policy", str(policy), "--json")
    plan = json.loads(as_a_run.stdout)
    settings = plan["settings"]
    assert settings["policy_digest"] is not None
    assert settings["max_bytes"] > 0
    assert settings["throttle_bytes_per_second"] == 50_000_000
    # Disks of brokers that run tell other free bytes each time, so snapshot and digests differ. The moves do not.
    with_policy = run("check", *addresses(cluster), "--out", str(tmp_path / "again"), "--policy", str(policy))
    assert "Planned with the policy given" in with_policy.stdout
    (first,), (again,) = (sorted(folder.glob("cluster/*/1"))[-1:] for folder in (tmp_path, tmp_path / "again"))
    assert moves_in(first) == moves_in(again) != []
    narrow = tmp_path / "narrow.yaml"
    narrow.write_text("approvers: [ada]\ntopics_out: ['*']\n")
    refused = run("check", *addresses(cluster), "--out", str(tmp_path), "--policy", str(narrow))
    assert refused.exit_code == 2
    assert "topics_out" in refused.stderr
    assert "Planned without a policy" in run("check", *addresses(cluster), "--out", str(tmp_path)).stdout
    assert written(cluster) == before, "the topic of the lock is not made either"


def test_a_cluster_that_is_not_there_is_an_error_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "FIRST_SECONDS", 1.0)
    done = run("check", "--bootstrap-servers", "127.0.0.1:1", "--out", str(tmp_path))
    assert done.exit_code == 2
    assert "ReadError" in done.stderr
    assert not list(tmp_path.rglob("report.html"))


def test_addresses_are_asked_for() -> None:
    assert "--bootstrap-servers" in run("check").stderr
