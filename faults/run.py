"""One case: it executes an approved plan as the Dag would, strikes with a fault, and judges the end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from faults import load
from faults.cases import Case, Ending, Fault, Moment
from faults.clusters.fault_cluster import AFTER, BEFORE, BULK_BYTES, RATE, FaultCluster, Truth
from faults.clusters.file_systems import own_file_system
from faults.judge import Throttles, judge_end, judge_records, judge_rest, judge_strike, judge_words
from faults.operator import Operator
from faults.ours.processes import Processes, Step, Triggerer, airflow_environment
from faults.strike import Strike

STORAGE_BYTES = 200_000_000
TENDINGS = 20  # looks of the janitor, RETRY_SECONDS apart
STAY_SECONDS = 60.0  # as in the Dag
RETRY_SECONDS = 2.0  # the Dag's pauses are longer; the number of retries is the Dag's
POLICY = "approvers: [uma]\nmax_bytes_share: 1.0\nmax_throttle_bytes_per_second: 100000000\n"


_retries: dict[str, int] = {}


class TaskFailedError(Exception):
    """A task has failed and has no retry left; the text is its last error."""


@dataclass(slots=True)
class Result:
    """The result of a case. It passed if `problems`, the findings about the product, is empty."""

    case: str
    seed: int
    passed: bool = False
    problems: list[str] = field(default_factory=list)
    struck: str = ""
    seconds: float = 0.0  # from the fault to the end of the run
    acknowledged: int = 0
    lost: int = 0
    longest_gap_seconds: float = 0.0
    consumed: int = 0
    state: str = ""  # the run's, when it first ended
    cleared: bool = False  # the run failed, said why, and succeeded when it was cleared after the cause was gone
    operator: str = ""  # what an operator did because the run asked for it
    errors: list[str] = field(default_factory=list)  # errors of tasks, also those that a retry overcame

    def line(self) -> str:
        end = self.state + (", then cleared" if self.cleared else "")
        figures = (
            f"{self.seconds:3.0f} s, {self.acknowledged:,} acknowledged, {self.lost} lost, longest gap "
            f"{self.longest_gap_seconds:.1f} s, run {end}, {len(self.errors)} tries failed"
        )
        verdict = "ok  " if self.passed else "FAIL"
        what = "; ".join(filter(None, (figures, self.struck, self.operator)))
        return f"{self.case:<32} {verdict} {what}" + "".join(f"\n    {p}" for p in self.problems)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@contextmanager
def airflow(folder: Path, cluster: FaultCluster) -> Iterator[dict[str, str]]:
    """The environment of our processes. The runs' folder is a file system of its own."""
    environment = airflow_environment(folder, cluster.local, POLICY)
    with own_file_system(folder / "runs", STORAGE_BYTES):
        yield environment


def dag_retries(processes: Processes) -> Mapping[str, int]:
    """{task id: retries} of the Dag, read once."""
    if not _retries:
        _retries.update(processes.call("read_retries", {}))
    return _retries


class Run:
    """Runs the tasks after the approval in the Dag's order, each in a process that a fault may kill."""

    def __init__(self, cluster: FaultCluster, processes: Processes, case: Case, records: load.LoadProcess) -> None:
        self.cluster, self.processes, self.case, self._records = cluster, processes, case, records
        self.errors: list[str] = []
        self.kills = 0
        self.truths: tuple[Truth, Truth] | None = None
        self._random = case.random()
        self._following: Step | None = None  # the triggerer
        self._moving: Step | None = None  # the worker, while it runs `reassign`
        self.operator = Operator(cluster)
        self._retries = dag_retries(processes)
        # If the fault kills the worker, the worker follows the batch itself. Otherwise a triggerer follows each batch.
        stay = STAY_SECONDS if case.fault is Fault.WORKER else 0
        self._state: dict[str, Any] = {"run_id": case.topic, "bytes_per_second": RATE, "stay_seconds": stay}
        self._to_kill = self._kills_planned()

    @property
    def folder(self) -> Path:
        return Path(self._state["decision"]["run_folder"])

    def approve(self) -> None:
        """Plans the reassignment to `AFTER` and approves it."""
        partitions = [
            {"topic": self.case.topic, "partition": p, "replicas": list(replicas)} for p, replicas in AFTER.items()
        ]
        plan = json.dumps({"version": 1, "partitions": partitions})
        self._state["params"] = {"topics_in": [self.case.topic], "plan": plan, "candidates": ["leaders_only"]}
        self._state["decision"] = self.processes.call("approve_plan", self._state)

    def execute(self) -> str:
        """Runs `hold_throttle` to `record`, also when somebody clears them; returns the state of the Dag run."""
        if not self._succeeds("hold_throttle"):
            return "failed"  # Airflow runs no teardown after a setup that failed
        moved = True
        try:
            self._reassign()
            self._task("elect_leaders")
        except TaskFailedError:
            moved = False
        released = self._succeeds("release_throttle")
        if released and not self.cluster.has_zookeeper and self._has_left_rates():
            self.processes.start("tend", self._state).wait()  # as the janitor does within a minute
        before = self.cluster.settled(self.case.topic)
        verified = self._succeeds("verify")
        self.truths = before, self.cluster.settled(self.case.topic)
        recorded = self._succeeds("record")
        return "success" if moved and released and verified and recorded else "failed"

    def _has_left_rates(self) -> bool:
        """Whether a broker that was away at the release has come back with its rate; only it can give it back."""
        rates = {
            value for values in self.cluster.settled(self.case.topic).throttles.values() for value in values.values()
        }
        return str(RATE) in rates

    def advice(self) -> str:
        """What the run tells people, in its errors and in the progress on its page.

        The topic's name is left out, because it names the fault.
        """
        notes = self.folder / "progress.json"
        said = [*self.errors, *([notes.read_text(encoding="utf-8")] if notes.exists() else [])]
        return "\n".join(said).replace(self.case.topic, "the topic")

    def told(self) -> str:
        """The advice, and the logs of the run's processes."""
        logs = "\n".join(log.read_text() for log in self.processes.folder.glob("*.log"))
        return "\n".join([self.advice(), logs.replace(self.case.topic, "the topic")])

    def tend(self) -> None:
        """The janitor's looks, until it has nothing more to put back. Airflow tells it that the run has failed."""
        for _ in range(TENDINGS):
            outcome = self.processes.start("tend", self._state).wait()
            if outcome is None or outcome["state"] != "done":
                self.errors.append(f"tend: {(outcome or {}).get('error', 'killed')}")
            if not self.cluster.is_locked():
                return
            time.sleep(RETRY_SECONDS)

    def shift_clock(self, seconds: int) -> None:
        self.processes.shift_clock(seconds)

    def stop_load(self) -> None:
        self._records.stop()

    def kill(self) -> None:
        """kill -9 of our triggerer, as soon as there is one, or of the worker that follows the batch.

        At submit the worker kills itself after one of its writes: `_kills_planned`.
        """
        if (self.case.fault, self.case.moment) == (Fault.WORKER, Moment.SUBMIT):
            return
        give_up = time.monotonic() + 10
        while (process := self._victim()) is None and time.monotonic() < give_up:
            time.sleep(0.01)
        if process is not None:
            process.kill()

    def _victim(self) -> Step | None:
        if self.case.fault is Fault.WORKER:
            return self._moving
        return self._following if self.case.fault is Fault.TRIGGERER else self._following or self._moving

    def _succeeds(self, task: str) -> bool:
        try:
            self._task(task)
        except TaskFailedError:
            return False
        return True

    def _task(self, task: str) -> None:
        for left in range(self._retries[task], -1, -1):
            outcome = self._attempt(task, {})
            if outcome is not None and outcome["state"] == "done":
                return
            self._failed(task, outcome, left)

    def _reassign(self) -> None:
        """Defers and resumes `reassign` until it is done. A retry begins from the start, as in Airflow."""
        for left in range(self._retries["reassign"], -1, -1):
            outcome = self._attempt("reassign", {})
            while outcome is not None and outcome["state"] == "deferred":
                followed = self._follow(outcome)
                if followed["state"] != "done":
                    outcome = followed
                    break
                extra = {"event": followed["value"], "method": outcome["method"]}
                outcome = self._attempt("resume", extra)
            if outcome is not None and outcome["state"] == "done":
                return
            self._failed("reassign", outcome, left)

    def _follow(self, deferred: Mapping[str, Any]) -> dict[str, Any]:
        """Runs the trigger in a triggerer, and in another one if that was killed."""
        while True:
            self._following = self.processes.start("follow", self._state | dict(deferred))
            followed = self._following.wait(meanwhile=lambda: self.operator.look(self.folder))
            self._following = None
            if followed is not None:
                return followed
            self.kills += 1

    def _attempt(self, step: str, extra: Mapping[str, Any]) -> dict[str, Any] | None:
        process = self.processes.start(step, self._state | dict(extra), self._to_kill.pop(step, None))
        self._moving = process if step == "reassign" else None
        outcome = process.wait()
        self._moving = None
        self.kills += outcome is None
        return outcome

    def _failed(self, task: str, outcome: Mapping[str, Any] | None, left: int) -> None:
        """Notes the error and waits for the retry. Raises TaskFailedError if there is none."""
        text = f"{task}: {'killed' if outcome is None else outcome['error']}"
        self.errors.append(text)
        self.operator.clear_request(text)
        if not left or (outcome is not None and outcome["state"] == "failed"):
            raise TaskFailedError(text)
        time.sleep(RETRY_SECONDS)

    def _kills_planned(self) -> dict[str, dict[str, Any]]:
        """{step: after which write, and how long after, the worker dies}."""
        if self.case.fault is not Fault.WORKER:
            return {}
        short = self._random.uniform(0, 0.02)
        if self.case.moment is Moment.SUBMIT:
            hold = {"writes": self._random.randint(2, 9), "seconds": short}
            return {"hold_throttle": hold, "reassign": {"writes": 1, "seconds": short}}
        if self.case.moment is Moment.END:
            release = {"writes": self._random.randint(1, 8), "seconds": short}
            return {"release_throttle": release}
        return {}


def loses_its_topic(case: Case) -> bool:
    """Whether somebody deletes the topic, so that its records may be gone afterwards."""
    return case.fault in {Fault.TOPIC_DELETED, Fault.TOPIC_RECREATED}


def run_case(
    cluster: FaultCluster,
    environment: Mapping[str, str],
    case: Case,
    folder: Path,
    *,
    keep_topic: bool = False,
    triggerer: Triggerer | None = None,
) -> Result:
    """Runs and judges one case in `folder`, which it makes. An error of this code becomes a problem of the case.

    Without a `triggerer`, each batch has a new process that follows it.
    """
    folder.mkdir()
    result = Result(case.name, case.seed)
    try:
        _run_and_judge(cluster, Processes(folder, environment, triggerer), case, result, keep_topic=keep_topic)
    except Exception as broken:
        return Result(case.name, case.seed, problems=[f"{type(broken).__name__}: {broken}"])
    result.passed = not result.problems
    return result


def _run_and_judge(
    cluster: FaultCluster, processes: Processes, case: Case, result: Result, *, keep_topic: bool
) -> None:
    """Fills in the result. Afterwards the cluster is as before, or `problems` says what is not."""
    before = cluster.throttles()
    cluster.make_topic(case.topic)
    journal = processes.folder / "acknowledged.txt"
    options = cluster.local.bootstrap_servers, case.topic, len(BEFORE), BULK_BYTES, str(journal)
    records = load.LoadProcess(processes.context, load.write_and_read, *options)
    try:
        records.start()
        run = Run(cluster, processes, case, records)
        run.approve()
        strike = Strike(cluster, case, run)
        if case.moment is Moment.BEFORE:
            strike.strike()
        strike.start()
        result.state = run.execute()
        ended = time.monotonic()
        strike.end()
        result.seconds = ended - (strike.struck_at or ended)
        result.struck = strike.what
        run.shift_clock(0)
        if case.kind.ending is Ending.TOLD:
            result.problems += _end_told(run, strike, result.state, before)
        else:
            result.problems += _end_as_approved(run, strike, result, before)
        result.problems += judge_words(run, run.told())
        result.operator, result.errors = run.operator.did, run.errors
        seen: load.LoadResult = records.stop()
        result.acknowledged, result.consumed = seen.acknowledged, seen.consumed
        result.longest_gap_seconds = seen.longest_gap_seconds
        if not loses_its_topic(case):
            result.lost, problems = judge_records(cluster, case, journal, seen)
            result.problems += problems
        cluster.throttle_before()
        if not keep_topic:
            cluster.delete_topic(case.topic)
    finally:
        records.kill()


def _end_as_approved(run: Run, strike: Strike, result: Result, before: Throttles) -> list[str]:
    """The run must succeed, at once or when somebody clears it after the cause is gone."""
    cluster, topic = run.cluster, run.case.topic
    if run.truths is None and run.case.moment is Moment.BEFORE:  # refused before anything was written
        problems = [*judge_strike(run, strike), *judge_rest(cluster.settled(topic), before)]
    else:
        problems = judge_end(run, strike, result.state, before)
    cluster.wait("all brokers and replicas are in sync again", lambda: cluster.healthy(topic))
    if result.state != "success":
        result.cleared = run.execute() == "success"
        problems += [] if result.cleared else [f"the run did not succeed when it was cleared: {run.errors[-1]}"]
        problems += judge_end(run, strike, "success" if result.cleared else "failed", before)
    whole = cluster.settled(topic)
    if not whole.is_placed:
        problems.append(f"all brokers are back, and the end is not the approved one: {whole}")
    return problems


def _end_told(run: Run, strike: Strike, state: str, before: Throttles) -> list[str]:
    """The run cannot succeed and must say why. An operator does what it says; the janitor puts back the rest."""
    cluster, topic = run.cluster, run.case.topic
    problems = judge_strike(run, strike)
    if state == "success":
        problems.append("the run says success, but its topic or its folder was gone")
    problems += [problem] if (problem := run.operator.clear_request(run.advice())) else []
    cluster.wait("all brokers and replicas are in sync again", lambda: cluster.healthy(topic))
    run.tend()
    return [*problems, *judge_rest(cluster.settled(topic), before)]
