"""The tasks of two approved runs, called as Airflow calls them, whichever way their cluster is reached.

Each call of a task to its cluster may be the last (the process is killed), may lose its connection with or without
having taken effect, and others may act just before it.
"""

from __future__ import annotations

import copy
import functools
import json
import shutil
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, DownstreamTasksSkipped
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ReadError, RebalanceError, UnwatchedError
from kafka_rebalance.rebalance.elect_leaders import elect_leaders
from kafka_rebalance.rebalance.follow import BatchFollower
from kafka_rebalance.rebalance.observe_batch import STABLE_LOOKS
from kafka_rebalance.rebalance.verify import verify
from kafka_rebalance.throttle import lease_files
from kafka_rebalance.throttle.janitor import look_after_lease
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.run_step import run_step
from support.histories.papers import PLANNED_UNDER, Key, Papers
from support.histories.process import Killed, Process
from support.runs.cancel_run import CancelRun
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import RATE, SimulatedRun


class Custodians:
    """Each is a call of a task, as those of the runs are."""

    monkeypatch: pytest.MonkeyPatch

    def _make_custodians(self) -> None:
        """Once for a world. Simulated are what Airflow answers, and the time that is waited."""
        self.airflow, self.silent_seconds, self.asked = Airflow.answering(self.monkeypatch), 0.0, 0
        paused = lambda dag_id: SimpleNamespace(is_paused=self.airflow.paused)  # noqa: E731
        self.monkeypatch.setattr(RuntimeTaskInstance, "get_dag", staticmethod(paused))
        self.monkeypatch.setattr(look_after_lease, "_silent_seconds", lambda *_: self.silent_seconds)
        self.seconds = 0.0
        clock = SimpleNamespace(time=time.time, monotonic=lambda: self.seconds, sleep=lambda _: self._wait())
        self.monkeypatch.setattr("kafka_rebalance.clock.time", clock)

    @abstractmethod
    def _wait(self) -> None:
        """While a task waits, the cluster goes on."""

    def _ask(self, run: SimulatedRun | None, _: Any) -> CancelRun | None:
        """Asked for and approved: to cancel what runs now."""
        made = self._canceller()
        try:
            made.approved()
        except (AirflowSkipException, DownstreamTasksSkipped):
            return None
        return made

    def _stop(self, run: SimulatedRun | None, _: Any) -> None:
        made = self._canceller()
        try:
            made.request("stop_after_batch")
        except (AirflowSkipException, DownstreamTasksSkipped):
            return
        made.stop()

    def _canceller(self) -> CancelRun:
        self.asked += 1
        return CancelRun(self.monkeypatch, f"cancel-{self.asked}")

    def _cancel(self, run: SimulatedRun | None, canceller: CancelRun) -> Any:
        return canceller.cancel()

    def _end(self, run: SimulatedRun | None, canceller: CancelRun) -> Any:
        return canceller.verify()

    def _pause(self, run: SimulatedRun | None, silent_seconds: float) -> Any:
        """The janitor comes, and finds a next batch that has waited for long."""
        with self.monkeypatch.context() as patched:
            patched.setattr(look_after_lease, "waits_long", lambda *_: "The next batch has waited for 2.0 h.")
            try:
                return self._sweep(run, silent_seconds)
            except UnwatchedError:
                return None

    def _sweep(self, run: SimulatedRun | None, silent_seconds: float) -> Any:
        self.silent_seconds = silent_seconds
        return tend()


TOPICS: dict[str, Any] = {"orders": {0: (1, 2), 1: (3, 2)}, "audit": {0: (2, 1)}, "ranks": {0: (1, 2, 3)}}
PLANS: tuple[dict[str, list[int]], ...] = (  # of one snapshot; they have a move in common, and another partition
    {"orders-0": [2, 3], "orders-1": [4, 1], "audit-0": [1, 2], "ranks-0": [3, 2, 1]},  # replaces, and changes orders
    {"orders-0": [2, 3], "audit-0": [3, 4]},
)
OURS = ("hold", "request", "look", "resume", "elect", "release", "verify")
# By people and the janitor, whichever run holds the cluster.
OUTSIDE = ("ask", "cancel", "end", "stop", "sweep", "pause")


class Tasks(Custodians, Papers):
    """What must hold is judged by the world that is derived from it."""

    process: Process | None
    runs: dict[str, SimulatedRun]
    strangers: int  # how often strangers have written anything

    def _make_tasks(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Once for a world."""
        self.folder, self.monkeypatch = folder, monkeypatch
        monkeypatch.setattr("kafka_rebalance.rebalance.elect_leaders.WAIT_SECONDS", 0)
        monkeypatch.setattr("kafka_rebalance.workflow.airflow_deployment.read_frozen_text", lambda: None)
        for name in ("read", "write", "is_latest", "remove_before"):
            monkeypatch.setattr(lease_files, name, functools.partial(self._file, getattr(lease_files, name)))
        self.process = None
        self._make_custodians()
        self.later_seconds, self.policy_versions = 0.0, 0
        self.is_closed, self.window_changes = False, 0
        self._make_clock()
        self._make_window()
        self.seen: Counter[tuple[str, str]] = Counter()  # how the tasks ended
        self.said: Counter[tuple[str, str]] = Counter()

    def _approved_runs(self, cluster: Any, version: str) -> dict[str, SimulatedRun]:
        """Two approved runs on this cluster."""
        runs = {}
        for number, plan in enumerate(PLANS):
            name = f"{version}-{number}"
            made = SimulatedRun(self.folder, cluster, self.monkeypatch, name)
            made.policy_file.write_text(PLANNED_UNDER)
            entries = [
                {"topic": tp.rpartition("-")[0], "partition": int(tp.rpartition("-")[2]), "replicas": replicas}
                for tp, replicas in plan.items()
            ]
            text = json.dumps({"version": 1, "partitions": entries})
            made.plan(plan=text, candidates=["leaders_only"])
            made.approve("given", RATE)
            runs[name] = made
        return runs

    def _begin_history(self, runs: Mapping[str, SimulatedRun]) -> None:
        """The files, counters and approvals are as they were when these runs were approved."""
        self.runs = dict(runs)
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
        self.moves = {
            name: {tuple(move.topic_partition): move for move in run.candidate.moves} for name, run in self.runs.items()
        }  # type: ignore[misc]
        self.process = None
        self.airflow.states, self.airflow.paused = dict.fromkeys(self.runs, "running"), False
        self.broken: list[AssertionError] = []
        self.takes = 0
        self.strangers = 0
        self.meddled: set[Key] = set()  # partitions that strangers have requested something for
        self.requested = {}
        self.cancelled: set[str] = set()  # runs whose cancel has come to its end
        self.later_seconds, self.policy_versions = 0.0, 0
        self.is_closed, self.window_changes = False, 0
        self._write_policy()

    def take(self, run: str, kind: str, process: Process, argument: Any = None) -> tuple[str, Any]:
        """One call of a task: ("ok", its result), ("refused", our own error) or ("killed", None)."""
        made = self.runs.get(run)
        process.kind = kind
        process.registered = self.live()
        process.strangers = self.strangers
        process.late, process.policy_versions = self.later_seconds > 0, self.policy_versions
        process.window_was_closed, process.window_changes = self.is_closed, self.window_changes
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
        if kind == "cancel" and "ended" not in result:
            self.cancelled.add(argument.document["plan"]["run"].rpartition("/")[2])
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

    # What happens at each call.

    def _file(self, act: Callable[..., Any], *arguments: Any) -> Any:
        """A run reads or writes the cluster's lease: a call as any other, only that no connection is lost over it."""
        process = self.process
        if process is None:
            return act(*arguments)
        self._begin(process, is_write=False)
        mishap = process.mishaps.get(process.calls, "")
        self._suffer(process, mishap.replace("lost", "kept"), "before")
        result = act(*arguments)
        self._suffer(process, mishap.replace("lost", "kept"), "after")
        return result

    def _begin(self, process: Process, *, is_write: bool) -> str:
        """Its mishap, after what others do just before it."""
        if process.dead:
            raise Killed
        process.calls += 1
        at = [process.calls]
        if is_write:
            process.tried += 1
            at.append(-process.tried)
        self._let_others(process, [other for number in at for other in process.meanwhile.get(number, ())])
        return next((process.mishaps[number] for number in at if number in process.mishaps), "")

    def _let_others(self, process: Process, others: Sequence[Callable[[], None]]) -> None:
        for other in others:
            outer, self.process = self.process, None
            other()
            self.process = outer
            process.registered |= self.live()

    def _suffer(self, process: Process, mishap: str, when: str) -> None:
        if mishap == f"killed {when}":
            process.dead = True
            raise Killed
        if mishap == f"lost {when}":
            raise self._lost(when == "after")

    @abstractmethod
    def _lost(self, took_effect: bool) -> Exception:
        """The connection, as a call to this cluster tells it."""

    @abstractmethod
    def live(self) -> set[int]: ...

    @abstractmethod
    def _lease_texts(self) -> dict[str, Any]: ...

    @abstractmethod
    def _judge_leases(self, before: dict[str, Any]) -> None: ...

    @abstractmethod
    def _judge_words(self, words: str, process: Process, kind: str) -> None: ...

    @abstractmethod
    def _judge_success(self, run: str) -> None: ...

    @abstractmethod
    def _judge_cancelled(self, plan: dict[str, Any]) -> None: ...
