"""A whole cluster in memory for the workflow's tests: ZooKeeper, a controller, and what brokers would answer.

Simulated are kazoo's client and the four calls to brokers; everything between them and the tasks is the real thing.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.protocol.states import KeeperState

from kafka_rebalance.admin.log_dirs import BrokerDisks, LogDir, Metered
from kafka_rebalance.admin.out_of_sync import OutOfSync
from kafka_rebalance.cluster.with_zookeeper import ZooKeeperCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.janitor_report import JanitorReport, write_janitor_report
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.cluster_view import ConfigValue
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.pages.plots import Plot
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.run.checks.cluster_ready import ELECT_LEADERS
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.zookeeper.znodes import RUN_LOCK_PARENT
from support.documents.segment_configs import KAFKAS_DEFAULTS
from support.runs import rebalance_run
from support.runs.rebalance_run import InProcessRun
from support.zookeeper.fake_zookeeper import ELECTION, REASSIGN, FakeZooKeeper, SimulatedController, fake_cluster

SIZE_BYTES = 1_000_000
Step = Callable[[], dict[str, Any]]  # a task without Airflow, and what it returns
RATE = 2_000_000  # bytes per second
RACKS = {1: "rack-0", 2: "rack-1", 3: "rack-2", 4: "rack-0"}
TOPICS = {"orders": {0: (1, 2), 1: (3, 2), 2: (2, 3)}, "audit": {0: (2, 1)}, "idle": {0: (1, 3)}}
FEWER_TOPICS = {"orders": {0: (1, 2), 1: (3, 2)}, "audit": {0: (2, 1)}, "idle": {0: (1, 3)}}
# For tests of a folder with controllers of two versions: what is decided before a controller has a part in it.
ON_ANY_VERSION = pytest.mark.parametrize("cluster", ["2.8"], indirect=True)
DEFAULTS = KAFKAS_DEFAULTS | {"inter.broker.protocol.version": "2.8-IV1", "min.insync.replicas": "1"}

Tree = dict[str, tuple[bytes, int]]


class SimulatedCluster:
    """Looks like a `LocalCluster` to an `InProcessRun`. `step()` lets the controller do its next stage."""

    kraft = False
    zookeeper = "simulated:2181"
    bootstrap_servers = "simulated:9092"

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        topics: Mapping[str, Mapping[int, Sequence[int]]],
        version: str = "2.8",
        racks: Mapping[int, str | None] = RACKS,
    ) -> None:
        self.fake: FakeZooKeeper = fake_cluster(topics, brokers=racks, version=version)
        self.controller = SimulatedController(self.fake, version)
        self.fake.after_write.append(self._elect_at_once)
        self.empty_disks: set[int] = set()  # brokers that came back without what they held
        self.upgraded: set[int] = set()  # brokers with a newer software
        self.broker_settings: dict[int, dict[str, str]] = {}  # of single brokers, beside DEFAULTS
        self.size_bytes = SIZE_BYTES  # of every replica that is in sync
        self.tells_sizes = True
        self.committed: dict[TopicPartition, dict[str, int]] | None = None  # by group; None: the groups do not tell
        self.disk_fractions: dict[int, float] = {}  # in use, of brokers that tell
        self.failed_dirs: dict[int, str] = {}  # by broker the log dir that is offline, with all its replicas
        self.silent: set[int] = set()  # brokers that are registered, and answer none of these calls
        self.requests: list[dict[TopicPartition, list[int]]] = []  # what each reassignment znode asked for
        self.elections: list[list[TopicPartition]] = []  # what each election znode asked for
        monkeypatch.setattr("kafka_rebalance.zookeeper.client.Client", lambda **_: SimulatedClient(self.fake))
        monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_log_dirs", self._log_dirs)
        again = "kafka_rebalance.admin.log_dirs.read_log_dirs_again"
        monkeypatch.setattr(again, lambda kafka, known, partitions: self._log_dirs(kafka, known.log_dirs))
        states = "kafka_rebalance.admin.log_dirs.read_dir_states"
        monkeypatch.setattr(states, lambda kafka, brokers: self._log_dirs(kafka, brokers).log_dirs)
        monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_replica_sizes", self._sizes)
        monkeypatch.setattr(
            "kafka_rebalance.admin.wire.read_api_versions",
            lambda _, asked: {broker: self.spoken(broker) for broker in asked},
        )
        for name, offset in (("read_end_offsets", 1), ("read_start_offsets", 0)):
            monkeypatch.setattr(f"kafka_rebalance.admin.offsets.{name}", partial(self._offsets, offset))
        monkeypatch.setattr("kafka_rebalance.admin.groups.read_committed_offsets", self._committed_offsets)
        self.answers: dict[int, float] = {}  # seconds that a broker takes for an answer, if it is not quick
        for name, call in (
            ("read_out_of_sync", self._out_of_sync),
            ("read_eligible", lambda kafka, partitions: {}),
            ("read_answer_seconds", self._answer_seconds),
        ):
            monkeypatch.setattr(f"kafka_rebalance.admin.out_of_sync.{name}", call)
        self.internal: frozenset[str] | None = frozenset()  # what brokers call internal; None: they do not answer
        monkeypatch.setattr("kafka_rebalance.admin.cluster_view.read_internal_topics", self._internal)
        monkeypatch.setattr(
            "kafka_rebalance.admin.cluster_view.read_cluster_id", lambda _: self.fake.json("/cluster/id")["id"]
        )
        self.may_list_reassignments = True
        monkeypatch.setattr("kafka_rebalance.admin.reassignments.read_reassignments", self._reassignments)
        for module in ("kafka_rebalance.admin.configs", "kafka_rebalance.segments.audit_io"):
            monkeypatch.setattr(f"{module}.read_effective_configs", self._broker_configs)
        monkeypatch.setattr(rebalance_run, "LOOK_SECONDS", 0)
        monkeypatch.setattr(Plot, "source", "")  # to draw the pictures takes most of a page's time

    def _elect_at_once(self, call: str, path: str) -> None:
        if (call, path) == ("create", REASSIGN):
            asked = self.fake.json(REASSIGN)["partitions"]
            self.requests.append({TopicPartition(e["topic"], e["partition"]): e["replicas"] for e in asked})
        if (call, path) == ("create", ELECTION):
            asked = self.fake.json(ELECTION)["partitions"]
            self.elections.append([TopicPartition(e["topic"], e["partition"]) for e in asked])
            self.controller.step()

    def _out_of_sync(self, _: object) -> dict[TopicPartition, OutOfSync]:
        if self.silent:
            raise ReadError(f"Broker {min(self.silent)} does not answer (KafkaTimeoutError).")
        found = {}
        for topic in self.fake.get_children("/brokers/topics"):
            for number, replicas in self.replicas(topic).items():
                state = self.fake.json(f"/brokers/topics/{topic}/partitions/{number}/state")
                if set(replicas) - set(state["isr"]):
                    one = OutOfSync(state["leader"], tuple(replicas), tuple(state["isr"]))
                    found[TopicPartition(topic, number)] = one
        return found

    def _answer_seconds(self, _: object, brokers: Collection[int]) -> dict[int, float | None]:
        return {broker: None if broker in self.silent else self.answers.get(broker, 0.002) for broker in brokers}

    def _internal(self, _: object) -> frozenset[str]:
        if self.internal is None:
            raise ReadError("No broker answers.")
        return self.internal

    def lease(self) -> ClusterLease:
        """Where its lease is kept, as tasks find it."""
        return ClusterLease(airflow_deployment(), self.opened(), self.fake.json("/cluster/id")["id"])

    def opened(self) -> ZooKeeperCluster:
        """The cluster as a task finds it behind its connection."""
        return ZooKeeperCluster(read_connection(rebalance_run.CONNECTION), self.fake)  # type: ignore[arg-type]

    def step(self) -> bool:
        return self.controller.step()

    def to_be_read(self) -> str:
        """All that a snapshot says of this cluster."""
        brokers = (self.empty_disks, self.upgraded, self.broker_settings, self.size_bytes, self.disk_fractions)
        return f"{self.fake.znodes} {brokers}"

    def spoken(self, broker: int) -> dict[int, tuple[int, int]]:
        """The requests that the broker's software speaks."""
        return {0: (0, 9), 18: (0, 4 if broker in self.upgraded else 3), ELECT_LEADERS: (0, 2)}

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Nothing is written meanwhile."""
        before = self.tree()
        yield
        assert self.tree() == before

    def tree(self) -> Tree:
        """Every znode's content and version; not the fence, which who is about to write raises first."""
        found = {path: (znode.data, znode.version) for path, znode in self.fake.znodes.items()}
        found.pop(RUN_LOCK_PARENT, None)
        return found

    def config(self, entity: str) -> dict[str, str]:
        """What is set on `topics/T` or `brokers/N`."""
        path = f"/config/{entity}"
        found: dict[str, str] = self.fake.json(path)["config"] if path in self.fake.znodes else {}
        return found

    def throttles(self) -> dict[str, dict[str, str]]:
        """Every throttle key that is set, by entity."""
        entities = [
            f"{kind}/{name}" for kind in ("brokers", "topics") for name in self.fake.get_children(f"/config/{kind}")
        ]
        found = {e: {k: v for k, v in self.config(e).items() if "throttled" in k} for e in entities}
        return {entity: values for entity, values in found.items() if values}

    def leftovers(self) -> list[str]:
        """What no run may leave behind: requests, lock, throttles."""
        znodes = [path for path in (REASSIGN, ELECTION, "/kafka_rebalance/run") if path in self.fake.znodes]
        return [*znodes, *self.throttles()]

    def replicas(self, topic: str) -> dict[int, list[int]]:
        return {int(p): brokers for p, brokers in self.fake.json(f"/brokers/topics/{topic}")["partitions"].items()}

    def leaders(self, topic: str) -> dict[int, int]:
        return {
            p: self.fake.json(f"/brokers/topics/{topic}/partitions/{p}/state")["leader"] for p in self.replicas(topic)
        }

    def _answering(self, brokers: Collection[int], of_the_rest: bool) -> list[int]:
        """Those of them that answer. Raises ReadError as the real calls do."""
        answer = [broker for broker in brokers if broker not in self.silent]
        if len(answer) < len(brokers) and not (of_the_rest and answer):
            raise ReadError(f"Broker {min(self.silent)} does not answer (KafkaTimeoutError).")
        return answer

    def _offsets(
        self, offset: int, _: object, partitions: Collection[TopicPartition], *, of_the_rest: bool = False
    ) -> dict[TopicPartition, int]:
        told = [tp for tp in partitions if not self.silent or self.leaders(tp.topic)[tp.partition] not in self.silent]
        if len(told) < len(partitions) and not of_the_rest:
            raise ReadError(f"The offsets of {len(partitions) - len(told)} partitions cannot be read.")
        return dict.fromkeys(told, offset)

    def _committed_offsets(self, _: object, brokers: Collection[int]) -> dict[TopicPartition, dict[str, int]]:
        if self.committed is None:
            raise ReadError("The Kafka user may not read which consumer groups there are.")
        return self.committed

    def _log_dirs(self, _: object, brokers: Collection[int], *, of_the_rest: bool = False) -> BrokerDisks:
        brokers = self._answering(brokers, of_the_rest)
        replicas: dict[TopicPartition, dict[int, int]] = {}
        for topic in self.fake.get_children("/brokers/topics"):
            for partition, holders in self.replicas(topic).items():
                isr = self.fake.json(f"/brokers/topics/{topic}/partitions/{partition}/state")["isr"]
                replicas[TopicPartition(topic, partition)] = {
                    broker: self.size_bytes if broker in isr and broker not in self.empty_disks else 0
                    for broker in holders
                    if broker in brokers
                }
        return BrokerDisks(replicas, {broker: (LogDir("/data"),) for broker in brokers})

    def _sizes(self, _: object, brokers: Collection[int], asked: object) -> Metered:
        fractions = {broker: self.disk_fractions[broker] for broker in brokers if broker in self.disk_fractions}
        if not self.tells_sizes:
            return Metered({}, frozenset(brokers), {})
        sizes = {
            tp: {broker: size for broker, size in held.items() if broker not in self.failed_dirs}
            for tp, held in self._log_dirs(_, brokers).replicas.items()
        }
        offline = {broker: (path,) for broker, path in self.failed_dirs.items() if broker in brokers}
        return Metered(sizes, frozenset(), fractions, offline)

    def _reassignments(self, _: object) -> dict[TopicPartition, tuple[int, ...]] | None:
        """What the controller says is in motion, which from 2.4 on topics' znodes mark."""
        if not self.may_list_reassignments:
            return None
        found = {}
        for topic in self.fake.get_children("/brokers/topics"):
            document = self.fake.json(f"/brokers/topics/{topic}")
            new, gone = (document.get(name, {}) for name in ("adding_replicas", "removing_replicas"))
            for number in {*new, *gone}:
                leaves = gone.get(number, [])
                target = tuple(broker for broker in document["partitions"][number] if broker not in leaves)
                found[TopicPartition(topic, int(number))] = target
        return found

    def _broker_configs(
        self, _: object, brokers: Collection[int], *, of_the_rest: bool = False
    ) -> dict[int, dict[str, ConfigValue]]:
        brokers = self._answering(brokers, of_the_rest)
        values = {key: ConfigValue(value, "DEFAULT_CONFIG") for key, value in DEFAULTS.items()}
        own = {
            broker: {key: ConfigValue(value, "STATIC_BROKER_CONFIG") for key, value in settings.items()}
            for broker, settings in self.broker_settings.items()
        }
        return {broker: values | own.get(broker, {}) for broker in brokers}


class SimulatedClient:
    """kazoo's client, connected to the ZooKeeper in memory."""

    def __init__(self, fake: FakeZooKeeper) -> None:
        self._fake = fake

    client_state = KeeperState.CONNECTED

    def add_listener(self, listener: object) -> None:
        pass

    def start_async(self) -> threading.Event:
        started = threading.Event()
        started.set()
        return started

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fake, name)


class SimulatedRun(InProcessRun):
    """A run on a simulated cluster, whose controller goes on by one stage between two looks."""

    def __init__(
        self, folder: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, run_id: str = "one"
    ) -> None:
        super().__init__(folder, cluster, monkeypatch, run_id)  # type: ignore[arg-type]
        monkeypatch.setattr("kafka_rebalance.run.snapshot_reader.STORM_PAUSE_SECONDS", 0)
        self.cluster = cluster
        self.policy_file = folder / "policies" / f"{rebalance_run.CONNECTION}.yaml"

    def reassign(self) -> int:
        batch, followed = self.request(), 0
        while batch is not None:
            event, _ = self.follow(batch, until=lambda: not (self.cluster.step() or True))
            assert event is not None
            batch, followed = self.resume(event), followed + 1
        return followed

    @property
    def candidate(self) -> Any:
        return read_candidate(self.folder, self.decision["choice"])


def approved_run(
    folder: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, run_id: str = "one"
) -> SimulatedRun:
    """A run that is to empty broker 2, approved."""
    made = SimulatedRun(folder, cluster, monkeypatch, run_id)
    _plan_once(made, folder)
    made.approve("light", RATE)
    return made


def batched_run(folder: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    """A run that is to empty broker 2 of `TOPICS` in two batches of two partitions, approved."""
    made = SimulatedRun(folder, cluster, monkeypatch)
    made.policy_file.write_text(rebalance_run.POLICY + "partitions_per_batch: 2\n")
    _plan_once(made, folder)
    made.approve("light", RATE)
    assert [len(batch.moves) for batch in made.candidate.batches] == [2, 2]
    return made


def given_run(
    folder: Path,
    cluster: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    lists: Mapping[TopicPartition, Sequence[int]],
    policy: str = "",
    **params: Any,
) -> SimulatedRun:
    """A run of exactly these lists, a partition a batch, approved. `policy`: further lines of it."""
    made = SimulatedRun(folder, cluster, monkeypatch)
    made.policy_file.write_text(f"{rebalance_run.POLICY}partitions_per_batch: 1\n{policy}")
    entries = [{"topic": tp.topic, "partition": tp.partition, "replicas": list(lists[tp])} for tp in lists]
    made.plan(plan=json.dumps({"version": 1, "partitions": entries}), candidates=["leaders_only"], **params)
    made.approve("given", RATE)
    return made


def give_folder_to(run: InProcessRun) -> None:
    """The folder of the run that was planned becomes this one's, as if this had planned it."""
    before = run.folder
    owner = {**json_files.read_json(before, json_files.NONCE)["owner"], "run_id": run.dag_run.run_id}
    after = before.parents[1] / run.dag_run.run_id / before.name
    before.parent.rename(after.parent)
    json_files.write_json(after, json_files.NONCE, {"nonce": run.xcom["nonce"], "owner": owner})
    run.xcom["run_folder"] = run.decision["run_folder"] = str(after)


_planned: dict[str, tuple[Path, dict[str, Any]]] = {}  # what a plan left below a folder, by what it was made of
_kept = tempfile.TemporaryDirectory(prefix="kafka-rebalance-plans-")


def _plan_once(run: SimulatedRun, folder: Path) -> None:
    """Empties broker 2 on paper. A plan of the same cluster and policy is a copy of the first one's files."""
    made_of = f"{run.dag_run} {run.policy_file.read_text()} {run.cluster.to_be_read()}"
    runs = folder / "runs"
    fresh = not runs.exists()  # else there may be a history, or an earlier attempt
    if fresh and made_of in _planned:
        kept, xcom = _planned[made_of]
        shutil.copytree(kept, runs)
        run.xcom = {key: _moved(value, kept, runs) for key, value in xcom.items()}
        return
    run.plan(job="drain", drain=[2], topics_out=["idle"])
    if fresh:
        kept = Path(_kept.name) / str(len(_planned))
        shutil.copytree(runs, kept)
        _planned[made_of] = kept, {key: _moved(value, runs, kept) for key, value in run.xcom.items()}


def _moved(value: Any, before: Path, after: Path) -> Any:
    return value.replace(str(before), str(after)) if isinstance(value, str) else value


def batches(run: InProcessRun) -> list[dict[str, Any]]:
    """What batches.json says."""
    found: list[dict[str, Any]] = json_files.read_json(run.folder, json_files.BATCHES)["batches"]
    return found


def freeze(monkeypatch: pytest.MonkeyPatch, room: Any, name: str, others: Callable[[], object]) -> None:
    """The next call of this function stands still until others have gone on."""
    real = getattr(room, name)

    def frozen(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(room, name, real)
        others()
        return real(*arguments, **options)

    monkeypatch.setattr(room, name, frozen)


def lease_file(runs: Path) -> Path:
    """The file of the simulated cluster's lease below `runs_url`: the latest."""
    return max((runs / json_files.LEASES / "simulated-cluster-0001").glob("*.json"))


def leads_here_too(connection_id: str, cluster: SimulatedCluster) -> None:
    """The janitor has met this cluster behind another connection."""
    report = JanitorReport(cluster_id=cluster.fake.json("/cluster/id")["id"])
    write_janitor_report(airflow_deployment().runs_root, connection_id, report)


def other_dag_run(run_id: str) -> SimpleNamespace:
    return SimpleNamespace(dag_id="kafka_rebalance", run_id=run_id, triggering_user_name="olive", run_type="manual")
