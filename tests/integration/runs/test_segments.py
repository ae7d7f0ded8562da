"""Segment settings on real brokers of every version that do not all have the same server.properties."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kazoo.client import KazooClient

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.json_files import VERDICT
from kafka_rebalance.documents.snapshot import CONFIGS_FILE, ClusterConfigs
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import VERSIONS
from kafka_rebalance.nightly import check_cluster
from kafka_rebalance.rebalance.request import CandidateApproval
from kafka_rebalance.run.run_folder import open_run_folder
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from support.kafka.on_versions import OLDEST_AND_NEWEST, in_make_test
from support.runs.rebalance_run import CONNECTION, InProcessRun
from support.waiting import wait

MEGABYTE = 1_000_000
HOUR = 3_600_000
RATE = 50 * MEGABYTE  # bytes per second
SMALL = {"segment.bytes": "100000"}
WATCHED = ("/admin", "/brokers/topics", "/config", "/kafka_rebalance")


@pytest.fixture(scope="module", params=OLDEST_AND_NEWEST)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Brokers 1 and 2 roll after 24 hours, broker 3 after 2, by static settings. No racks."""
    with LocalCluster(request.param, brokers=2, racks=0, broker_config={"log.roll.hours": 24}) as cluster:
        own = {"log.roll.ms": 2 * HOUR, "log.retention.minutes": 90, "log.segment.bytes": 512 * 1024 * 1024}
        assert cluster.add_broker(config=own) == 3
        yield cluster


@pytest.fixture
def configure(client: KazooClient) -> Iterator[Callable[[str, dict[str, str]], None]]:
    """Sets an entity's config as kafka-configs does; the package itself writes throttles only. Undone afterwards."""
    changed = set()

    def write(entity: str, config: dict[str, str]) -> None:
        client.ensure_path(f"/config/{entity}")
        client.set(f"/config/{entity}", json.dumps({"version": 1, "config": config}).encode())
        notification = json.dumps({"version": 2, "entity_path": entity}).encode()
        client.create("/config/changes/config_change_", notification, sequence=True)
        changed.add(entity)

    yield write
    for entity in sorted(changed):
        write(entity, {})


def tree(client: KazooClient) -> dict[str, tuple[bytes | None, int]]:
    """Content and version of every znode that a run could write."""
    found, waiting = {}, [path for path in WATCHED if client.exists(path)]
    while waiting:
        path = waiting.pop()
        content, stat = client.get(path)
        found[path] = (content, stat.version)
        waiting += [f"{path}/{child}" for child in client.get_children(path)]
    return found


def snapshot_configs(run: InProcessRun) -> ClusterConfigs:
    return CONFIGS_FILE.read(run.folder / json_files.SNAPSHOT_FOLDER)


def audit_of(run: InProcessRun) -> dict[str, Any]:
    return json_files.read_json(run.folder, json_files.SEGMENTS)


def read_until(run: InProcessRun, topic: str, holds: Callable[[ClusterConfigs], bool]) -> ClusterConfigs:
    """Snapshots until brokers have taken what was set."""
    give_up = time.monotonic() + 30
    while True:
        run.plan(topics_in=[topic])
        configs = snapshot_configs(run)
        if holds(configs):
            return configs
        assert time.monotonic() < give_up, {broker: configs.roll_settings(topic, broker) for broker in configs.brokers}
        time.sleep(0.1)


def test_effective_values_and_their_sources_are_those_of_the_brokers(
    cluster: LocalCluster, run: InProcessRun, fresh_topic_name: Callable[[], str], configure: Callable[..., None]
) -> None:
    """facts f: topic > broker dynamic > broker dynamic default > server.properties > default; ms hides hours."""
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1, 2)}, config={"retention.bytes": 12345})
    configs = read_until(run, topic, lambda found: 3 in found.brokers)

    def seen(broker: int, key: str) -> tuple[Any, str]:
        settings = configs.roll_settings(topic, broker)
        return getattr(settings, key.replace(".", "_")), str(settings.sources[key])

    assert seen(1, "segment.ms") == (24 * HOUR, "log.roll.hours (broker static)")
    assert seen(3, "segment.ms") == (2 * HOUR, "log.roll.ms (broker static)")
    assert seen(1, "retention.ms") == (168 * HOUR, "log.retention.hours (default)")
    assert seen(3, "retention.ms") == (90 * 60_000, "log.retention.minutes (broker static)")
    assert seen(3, "segment.bytes") == (512 * 1024 * 1024, "log.segment.bytes (broker static)")
    assert seen(2, "retention.bytes") == (12345, "topic")
    assert seen(2, "max.message.bytes")[0] == (1_000_012 if cluster.version == "2.0.1" else 1_048_588)
    assert configs.roll_settings(topic, 1).replica_fetch_max_bytes == 1_048_576
    assert configs.version == cluster.version.rpartition(".")[0]
    assert (configs.roll_settings(topic, 1).max_compaction_lag_ms is None) == (cluster.version == "2.0.1")

    configure("brokers/<default>", {"log.roll.ms": str(5 * HOUR), "log.retention.ms": str(7 * HOUR)})
    configure("brokers/2", {"log.retention.ms": str(6 * HOUR)})
    configs = read_until(
        run,
        topic,
        lambda found: (
            found.roll_settings(topic, 1).segment_ms == 5 * HOUR
            and found.roll_settings(topic, 2).retention_ms == 6 * HOUR
        ),
    )
    assert seen(1, "segment.ms") == (5 * HOUR, "log.roll.ms (broker dynamic default)")
    assert seen(3, "segment.ms") == (5 * HOUR, "log.roll.ms (broker dynamic default)")
    assert seen(2, "retention.ms") == (6 * HOUR, "log.retention.ms (broker dynamic)")
    assert seen(3, "retention.ms") == (7 * HOUR, "log.retention.ms (broker dynamic default)")


def test_segment_bytes_lowered_below_the_fetch_size_stops_the_approval_and_nothing_is_moved(
    cluster: LocalCluster,
    run: InProcessRun,
    client: KazooClient,
    fresh_topic_name: Callable[[], str],
    configure: Callable[..., None],
) -> None:
    """facts f, live: 4 MB in one segment, segment.bytes lowered to 100000, a move would stop the fetcher."""
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1,)})
    cluster.produce(topic, {0: 4 * MEGABYTE})
    configure(f"topics/{topic}", SMALL)
    before = tree(client)
    proposals = run.plan(topics_in=[topic], job="drain", drain=[1])
    moving = {c["name"] for c in proposals["candidates"] if c["moved_replicas"]}
    assert moving
    offer = CandidateApproval().offer(open_run_folder(airflow_deployment(), str(run.folder)))
    assert not moving & set(offer.digests)
    assert offer.refused is not None
    assert f"topic {topic}, broker " in offer.refused
    assert "segment.bytes is 100000, replica.fetch.max.bytes 1048576" in offer.refused
    assert "Raise segment.bytes to at least replica.fetch.max.bytes" in offer.refused
    with pytest.raises(KeyError):
        run.approve(sorted(moving)[0], RATE)
    assert tree(client) == before
    assert "not offered for approval" in (run.folder / json_files.REPORT).read_text()


def test_segment_bytes_lowered_after_the_approval_stops_the_run_before_its_first_write(
    cluster: LocalCluster,
    run: InProcessRun,
    client: KazooClient,
    fresh_topic_name: Callable[[], str],
    configure: Callable[..., None],
) -> None:
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1,)})
    cluster.produce(topic, {0: MEGABYTE})
    run.plan(topics_in=[topic], job="drain", drain=[1])
    run.approve("light", RATE)
    configure(f"topics/{topic}", SMALL)
    before = tree(client)
    with pytest.raises(AirflowFailException, match=r"StaleProposalError.*segment\.bytes is 100000"):
        run.hold()
    assert tree(client) == before


def test_a_partition_that_rolls_otherwise_on_its_new_broker_is_shown_before_and_warned_of_after(
    cluster: LocalCluster, run: InProcessRun, fresh_topic_name: Callable[[], str]
) -> None:
    """facts f: the effective roll setting of a partition can change merely because it moved."""
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1, 2)})
    cluster.produce(topic, {0: MEGABYTE})
    run.plan(topics_in=[topic], job="drain", drain=[2])
    audit = audit_of(run)
    differ = [f for f in audit["findings"] if f["rule"] == "brokers_differ" and f["text"].startswith("segment.ms is ")]
    assert [f["text"] for f in differ] == [f"segment.ms is {24 * HOUR} on broker 1, 2; {2 * HOUR} on broker 3"]
    assert (
        differ[0]["source"] == "log.roll.hours (broker static) on broker 1, 2; log.roll.ms (broker static) on broker 3"
    )
    (otherwise,) = audit["candidates"]["light"]["findings"]
    assert (otherwise["rule"], otherwise["topics"], otherwise["brokers"]) == ("rolls_otherwise", [topic], [3])
    assert f"segment.ms {24 * HOUR} -> {2 * HOUR}" in otherwise["text"]
    verification = run.carry_out("light", RATE)
    assert verification["passed"] is True
    (check,) = [c for c in verification["checks"] if c["name"] == "segment_settings_same_on_new_broker"]
    assert check["severity"] == "warning"
    assert check["finding"].startswith("as shown before the approval: partition 0, broker 3: ")


def test_values_written_by_hand_and_throttles_left_are_found_by_the_nightly_check_which_writes_nothing(
    tmp_path: Path,
    cluster: LocalCluster,
    run: InProcessRun,
    client: KazooClient,
    fresh_topic_name: Callable[[], str],
    configure: Callable[..., None],
) -> None:
    """facts f: brokers go on with the old value; one that starts, or is given a replica, cannot load it."""
    names = {what: fresh_topic_name() for what in ("unloadable", "ignored", "throttled")}
    for topic in names.values():
        cluster.create_topic(topic, {0: (1, 2)})
    configure(f"topics/{names['unloadable']}", {"segment.bytes": "3000000000"})
    configure(f"topics/{names['ignored']}", {"log.segment.bytes": "1048576"})
    configure(f"topics/{names['throttled']}", {"follower.replication.throttled.replicas": "0:1"})
    configure("brokers/1", {"leader.replication.throttled.rate": "1000000"})
    before = tree(client)
    verdict = run_step(check_cluster.check, run.dag_run, CONNECTION)
    assert tree(client) == before
    assert verdict["segment_errors"] == 1
    path = next(tmp_path.rglob(VERDICT))
    found = json_files.read_json(path.parent, VERDICT)["segments"]["findings"]
    told = {(f["rule"], *f["topics"], *f["brokers"]): f for f in found}
    assert "Not a number of type INT" in told["unloadable", names["unloadable"]]["text"]
    assert "a topic's is segment.bytes" in told["ignored", names["ignored"]]["text"]
    assert ("throttle_left", names["throttled"]) in told
    assert told["throttle_left", 1]["source"] == "/config/brokers/1"


@pytest.mark.parametrize("version", in_make_test(VERSIONS, VERSIONS[-1]))
def test_the_copy_that_the_audit_stops_would_never_end(version: str) -> None:
    """facts f, live: chunks above segment.bytes are refused by the new replica, again and again."""
    with LocalCluster(version, brokers=2, racks=0) as cluster:
        cluster.create_topic("orders", {0: (1,)})
        cluster.produce("orders", {0: 4 * MEGABYTE})
        client = KazooClient(cluster.zookeeper)
        client.start()
        try:
            client.set("/config/topics/orders", json.dumps({"version": 1, "config": SMALL}).encode())
            request = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [2]}]}
            client.create("/admin/reassign_partitions", json.dumps(request).encode())
            refusal = "exceeds the maximum configured segment size of 100000"
            log = cluster.folder / "kafka.log"
            wait(
                "the new replica refuses what a segment cannot hold", lambda: refusal in log.read_text(errors="replace")
            )
            state = json.loads(client.get("/brokers/topics/orders/partitions/0/state")[0])
            assert state["isr"] == [1]
            assert client.exists("/admin/reassign_partitions")
        finally:
            client.stop()
            client.close()
