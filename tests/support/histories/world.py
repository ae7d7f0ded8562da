"""Runs, a controller, brokers and strangers around one ZooKeeper in memory.

The runs are the tasks' own functions. Each of their calls to ZooKeeper may be the last (the process is killed), may
lose its connection with or without having taken effect, and others may act just before it.
"""

from __future__ import annotations

import copy
import functools
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kazoo.exceptions import ConnectionLoss, KazooException
from kazoo.protocol.serialization import Create, Delete, SetData
from kazoo.retry import KazooRetry

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ReadError, RebalanceError
from kafka_rebalance.execution.follow.look_interval import STABLE_LOOKS
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.steps.reassignment.follow_batch import BatchFollower
from kafka_rebalance.steps.rebalance.elect_leaders import elect_leaders
from kafka_rebalance.steps.rebalance.verify import verify
from kafka_rebalance.steps.throttle import lease_files
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.run_step import run_step
from support.histories.custodians import Custodians
from support.histories.judge import RATE, Process
from support.histories.strangers import PLANNED_UNDER
from support.kafka.controller_model import Key, ModelController
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedClient, SimulatedCluster, SimulatedRun
from support.zookeeper.fake_transaction import FakeTransaction
from support.zookeeper.fake_zookeeper import Answer, FakeZooKeeper

TOPICS: dict[str, Any] = {"orders": {0: (1, 2), 1: (3, 2)}, "audit": {0: (2, 1)}, "ranks": {0: (1, 2, 3)}}
PLANS: tuple[dict[str, list[int]], ...] = (  # of one snapshot; they have a move in common, and another partition
    {"orders-0": [2, 3], "orders-1": [4, 1], "audit-0": [1, 2], "ranks-0": [3, 2, 1]},  # replaces, and changes orders
    {"orders-0": [2, 3], "audit-0": [3, 4]},
)
OURS = ("hold", "request", "look", "resume", "elect", "release", "verify")
OUTSIDE = (
    "ask",
    "cancel",
    "end",
    "stop",
    "sweep",
    "pause",
)  # by people and the janitor, whichever run holds the cluster


class Killed(BaseException):
    """kill -9: nothing more of this process happens."""


class World(Custodians):
    """Everything there is. `load` starts it anew for a version, without planning again."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        self.cluster = SimulatedCluster(monkeypatch, TOPICS)
        client = "kafka_rebalance.zookeeper.client"
        monkeypatch.setattr(f"{client}.KazooClient", lambda **_: self._connect())
        monkeypatch.setattr(f"{client}.KazooRetry", functools.partial(KazooRetry, sleep_func=lambda _: None))
        monkeypatch.setattr("kafka_rebalance.steps.reassignment.elect_preferred.WAIT_SECONDS", 0)
        monkeypatch.setattr("kafka_rebalance.documents.storage.os.fsync", lambda _: None)
        monkeypatch.setattr("kafka_rebalance.workflow.freeze_variable.read_frozen_text", lambda: None)
        for name in ("read", "write", "is_latest", "remove_before"):
            monkeypatch.setattr(lease_files, name, functools.partial(self._file, getattr(lease_files, name)))
        self.process: Process | None = None
        self._make_custodians()
        self.later_seconds, self.policy_versions = 0.0, 0
        self._make_clock()
        self.seen: Counter[tuple[str, str]] = Counter()  # how the tasks ended
        self.said: Counter[tuple[str, str]] = Counter()
        self.templates: dict[str, tuple[dict[str, Any], dict[str, SimulatedRun]]] = {}
        for version in ("2.0", "2.8"):
            self._plan(version)

    @property
    def fake(self) -> FakeZooKeeper:  # type: ignore[override]
        return self.cluster.fake

    def _plan(self, version: str) -> None:
        """Two approved runs on one cluster: folders, and the znodes as they were."""
        self.cluster.__init__(self.monkeypatch, TOPICS, version)  # type: ignore[misc]
        self.monkeypatch.setattr("kafka_rebalance.zookeeper.client.KazooClient", lambda **_: self._connect())
        runs = {}
        for number, plan in enumerate(PLANS):
            name = f"{version}-{number}"
            made = SimulatedRun(self.folder, self.cluster, self.monkeypatch, name)
            made.policy_file.write_text(PLANNED_UNDER)
            entries = [
                {"topic": tp.rpartition("-")[0], "partition": int(tp.rpartition("-")[2]), "replicas": replicas}
                for tp, replicas in plan.items()
            ]
            text = json.dumps({"version": 1, "partitions": entries})
            made.plan(plan=text, candidates=["leaders_only"])
            made.approve("given", RATE)
            runs[name] = made
        self.templates[version] = (copy.deepcopy(self.fake.znodes), runs)

    def load(self, version: str) -> None:
        znodes, self.runs = self.templates[version]
        self.version = version
        self.fake.znodes = copy.deepcopy(znodes)
        self.fake.zxid = max(znode.mzxid for znode in znodes.values())
        self.fake.after_write.clear()
        self.fake.after_write.append(self._elect_another)
        for name in (json_files.LEASES, json_files.JANITOR):
            shutil.rmtree(self.folder / "runs" / name, ignore_errors=True)
        for run in self.runs.values():
            for name in (
                json_files.THROTTLE,
                json_files.BATCHES,
                json_files.PROGRESS,
                json_files.VERIFICATION,
                json_files.CONTROL,
                json_files.CANCELLED,
            ):
                (run.folder / name).unlink(missing_ok=True)
        self.moves: dict[str, dict[Key, Move]] = {
            name: {tuple(move.topic_partition): move for move in run.candidate.moves} for name, run in self.runs.items()
        }  # type: ignore[misc]
        self.process = None
        self.airflow.states, self.airflow.paused = dict.fromkeys(self.runs, "running"), False
        self.broken: list[AssertionError] = []
        self.zombies: list[ModelController] = []
        self.controller = ModelController(self.fake, version)
        self.takes = 0
        self.strangers = 0  # how often strangers have written anything
        self.meddled: set[Key] = set()  # partitions that strangers have requested something for
        self.requested: dict[str, set[Key]] = {}  # what each run has ever requested
        self.later_seconds, self.policy_versions = 0.0, 0
        self._write_policy()
        self.foreign = {e: set(self._entries(e)) for e in self._throttled_entities()}
        self.priors: dict[str, Any] = {}
        while self.controller.step():
            pass

    # The runs.

    def _connect(self) -> SimulatedClient:
        return _Client(self, self.process) if self.process else SimulatedClient(self.fake)

    def take(self, run: str, kind: str, process: Process, argument: Any = None) -> tuple[str, Any]:
        """One call of a task: ("ok", its result), ("refused", our own error) or ("killed", None)."""
        made = self.runs.get(run)
        process.kind = kind
        process.registered = self.live()
        process.strangers = self.strangers
        process.late, process.policy_versions = self.later_seconds > 0, self.policy_versions
        if made is not None and process.papers_of is not None:
            made = copy.copy(made)
            made.decision = self.runs[process.papers_of].decision
        outer, self.process = self.process, process
        leases_before, self.takes = self._lease_texts(), self.takes + 1
        takes = self.takes
        try:
            result = getattr(self, f"_{kind}")(made, argument)
            self.seen[kind, "ok"] += 1
        except Killed:
            self.seen[kind, "killed"] += 1
            return "killed", None
        except (RebalanceError, AirflowFailException) as refused:
            self.seen[kind, "refused"] += 1
            self.said[kind, str(refused)[:90]] += 1
            self._judge_words(str(refused), process, kind)
            return "refused", refused
        finally:
            self.process = outer
            if self.broken:
                raise self.broken[0]
            self._judge_leases(leases_before if self.takes == takes else {})
        assert process.papers_of is None, f"{kind} of {run} took the files of {process.papers_of} for its own"
        if kind in ("request", "resume") and result is not None:
            self._judge_followed(run, result)
        if kind == "verify" and not process.meanwhile:
            self._judge_success(run)
        if kind == "end" and not process.meanwhile:
            self._judge_cancelled(argument.document["plan"])
        return "ok", result

    def _hold(self, run: SimulatedRun, _: Any) -> None:
        run.hold()

    def _request(self, run: SimulatedRun, _: Any) -> int | None:
        return run.request()

    def _look(self, run: SimulatedRun, batch: int) -> Any:
        follower = BatchFollower(read_connection(CONNECTION), run.folder, "given", batch, 1e9)  # never stalled
        try:
            for _ in range(STABLE_LOOKS):
                event = follower.look(time.time(), lambda _: None)
                if event is not None:
                    return event
            return None
        except ReadError:
            return None
        finally:
            follower.close()

    def _resume(self, run: SimulatedRun, event: Any) -> int | None:
        return run.resume(event)

    def _elect(self, run: SimulatedRun, _: Any) -> Any:
        return run_step(elect_leaders, run.dag_run, run.decision)

    def _release(self, run: SimulatedRun, _: Any) -> Any:
        return run.release()

    def _verify(self, run: SimulatedRun, _: Any) -> Any:
        return run_step(verify, run.dag_run, run.decision)

    def call(self, process: Process, name: str, args: Sequence[Any], options: Any) -> Any:
        """One call to ZooKeeper by a run."""
        writes = [(name, args[0])] if name in ("create", "set", "delete") else []
        return self._perform(process, writes, lambda: getattr(self.fake, name)(*args, **options))

    def commit(self, process: Process, transaction: FakeTransaction) -> Any:
        """A transaction of a run: one call, whose writes are judged each."""
        calls = {Create: "create", SetData: "set", Delete: "delete"}
        writes = [(calls[type(one)], one.path) for one in transaction.operations if type(one) in calls]
        return self._perform(process, writes, lambda: FakeTransaction.commit_async(transaction).get(timeout=0))

    def _file(self, act: Callable[..., Any], *arguments: Any) -> Any:
        """A run reads or writes the cluster's lease: a call as any other, only that no connection is lost over it."""
        process = self.process
        if process is None:
            return act(*arguments)
        self._begin(process, [])
        mishap = process.mishaps.get(process.calls, "")
        self._suffer(process, mishap.replace("lost", "kept"), "before")
        result = act(*arguments)
        self._suffer(process, mishap.replace("lost", "kept"), "after")
        return result

    def _begin(self, process: Process, writes: Sequence[tuple[str, str]]) -> list[int]:
        """Its numbers, after what others do just before it."""
        if process.dead:
            raise Killed
        process.calls += 1
        at = [process.calls]
        if writes:
            process.tried += 1
            at.append(-process.tried)
        for other in [other for number in at for other in process.meanwhile.get(number, ())]:
            outer, self.process = self.process, None
            other()
            self.process = outer
            process.registered |= self.live()
        return at

    def _perform(self, process: Process, writes: Sequence[tuple[str, str]], act: Callable[[], Any]) -> Any:
        at = self._begin(process, writes)
        mishap = next((process.mishaps[number] for number in at if number in process.mishaps), "")
        self._suffer(process, mishap, "before")
        before = {path: self.fake.znodes[path].data for _, path in writes if path in self.fake.znodes}
        result = act()
        failed = isinstance(result, list) and any(isinstance(one, KazooException) for one in result)
        for call, path in () if failed else writes:
            process.written.append((call, path))
            try:
                self._judge_write(process, call, path, before.get(path))
            except AssertionError as broken:
                self.broken.append(broken)  # what is tried may catch it
        self._suffer(process, mishap, "after")
        return result

    def _suffer(self, process: Process, mishap: str, when: str) -> None:
        if mishap == f"killed {when}":
            process.dead = True
            raise Killed
        if mishap == f"lost {when}":
            raise ConnectionLoss

    def settle(self) -> None:
        """Every broker is back and in sync, and the controller has nothing left to do."""
        for _ in range(300):
            if not (self.act("up", 0) or self.act("controller", 1) or self.act("join", 0)):
                return
        raise AssertionError("the cluster does not settle")


class _Client(SimulatedClient):
    """kazoo's client of one process."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__(world.fake)
        self._world, self._process = world, process

    def transaction(self) -> FakeTransaction:
        made = FakeTransaction(self._fake)
        made.commit_async = lambda: Answer(lambda: self._world.commit(self._process, made))  # type: ignore[assignment,return-value]
        return made

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_async"):
            call = name.removesuffix("_async")
            return lambda *args, **kw: Answer(lambda: self._world.call(self._process, call, args, kw))
        return getattr(self._fake, name)
