"""What the other Dags leave behind: the nightly check, the janitor, a cancelled rebalance, and topics.

They run one after the other on one recorded cluster, by the tasks' own functions, under a clock that stands still.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_rebalance.model.consumer_groups import ConsumerGroup, GroupMember, TopicGroups
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.nightly import check_cluster
from kafka_rebalance.workflow.run_step import run_step
from support.golden.chain import Bundles, RecordedCluster, RecordedRun, files_below, request_text, znodes_text
from support.golden.clock import stop_clocks
from support.golden.planning import names_of
from support.golden.records import given, lines_of
from support.runs.cancel_run import CancelRun, let_cancel
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import other_dag_run
from support.runs.topic_run import TopicRun

START = "relieve_full_disks"  # the recorded run whose cluster it is
TOPIC = "thumbs"
MEMBERS = tuple(GroupMember(name, name, "/10.0.0.1", (TOPIC,), (TopicPartition(TOPIC, 0),)) for name in ("one", "two"))
READERS = (
    ConsumerGroup("viewers", "Stable", "range", MEMBERS, (0, 1)),
    ConsumerGroup("nightly <job>", "Empty", "", (), (2,)),
)


def left_by_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bundles:
    """By bundle, one a Dag: every file that it adds below `runs_url`, and what stands in ZooKeeper afterwards."""
    start, clock = given(START), stop_clocks(monkeypatch)
    cluster = RecordedCluster(monkeypatch, start)
    cluster.broker_settings = {int(broker): {"delete.topic.enable": "true"} for broker in start["brokers"]}
    clock.meanwhile = lambda: (cluster.step(), _create_and_delete(cluster))
    let_cancel(cluster, monkeypatch)
    bundles: Bundles = {}
    before: dict[str, str] = {}

    def keep(bundle: str) -> None:
        now = {name: text.replace(str(folder), "<folder>") for name, text in files_below(folder / "runs").items()}
        bundles[bundle] = {name: text for name, text in now.items() if before.get(name) != text}
        bundles[bundle]["znodes"] = znodes_text(cluster, folder)
        before.update(now)

    made = RecordedRun(folder, cluster, monkeypatch, start, "one", lambda: None)
    Airflow.answering(monkeypatch)
    verdict = run_step(check_cluster.check, other_dag_run("nightly"), CONNECTION)
    keep("nightly.txt")
    bundles["nightly.txt"]["returned"] = lines_of([verdict])

    made.plan_as_given(START)
    made.answer(at=clock.now, **start["answer"])
    made.hold()
    assert made.request() == 1
    cluster.step()
    cluster.step()
    clock.sleep(60)
    keep("before.txt")  # a recorded run has it
    tend()
    keep("janitor.txt")

    cancel = CancelRun(monkeypatch)
    cancel.request("cancel_now")
    asked, source = request_text(cancel.ask(), names_of(start)), digest_of(cancel.document)
    cancel.answer(consent=cancel.document["consent"], user="7")
    cancel.cancel()
    made.release()
    _catch_up(cluster)
    cancel.verify()
    keep("cancel.txt")
    # cancel.json names this machine's folder, and decision.json has the digest of it.
    bundles["cancel.txt"] = {
        name: text.replace(source, "<cancel.json>") for name, text in bundles["cancel.txt"].items()
    }
    bundles["cancel.txt"]["request"] = asked

    expansion = _topics(folder, cluster, monkeypatch)
    keep("topics.txt")
    bundles["topics.txt"]["request"] = request_text(expansion.operator, names_of(start))
    del bundles["before.txt"]
    return bundles


def _catch_up(cluster: RecordedCluster) -> None:
    """Replicas that the cancel brought back have copied what they missed, and join the ISR."""
    for topic in cluster.fake.get_children("/brokers/topics"):
        for partition, replicas in cluster.replicas(topic).items():
            cluster.set_state(TopicPartition(topic, partition), isr=list(replicas))


def _topics(folder: Path, cluster: RecordedCluster, monkeypatch: pytest.MonkeyPatch) -> TopicRun:
    """Returns the run that expands."""
    monkeypatch.setattr("kafka_rebalance.topics.keys.read_groups", lambda *_: TopicGroups(READERS))

    def run(name: str) -> TopicRun:
        made = TopicRun(folder, cluster, monkeypatch)  # type: ignore[arg-type]
        made.dag_run.run_id = name
        return made

    run("described").request(action="describe", topic=TOPIC)
    run("created").carry_out(action="create", topic="fresh_-.", partitions=3, replication_factor=2)
    expansion = run("expanded")
    expansion.carry_out(action="alter", topic=TOPIC, partitions=14, config=["retention.ms=3600000"])
    run("deleted").carry_out(action="delete", topic="fresh_-.")
    return expansion


def _create_and_delete(cluster: RecordedCluster) -> None:
    """What a controller does of a topic's znode that is new, of one that has more partitions, and of a deletion."""
    for topic in cluster.fake.get_children("/brokers/topics"):
        for partition, replicas in cluster.replicas(topic).items():
            path = f"/brokers/topics/{topic}/partitions/{partition}/state"
            if path not in cluster.fake.znodes:
                state = {"version": 1, "leader": replicas[0], "leader_epoch": 0, "controller_epoch": 1, "isr": replicas}
                cluster.fake.put_json(path, state)
    for topic in cluster.fake.get_children("/admin/delete_topics"):
        for path in (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}"):
            cluster.fake.delete(path, recursive=True)
