"""One case: it executes an approved plan as the Dag would, strikes with a fault, and judges the end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from faults import load, log_dir_judge
from faults.cases import Case, Ending, Fault, Moment
from faults.clusters.fault_cluster import BEFORE, BULK_BYTES, FaultCluster
from faults.judge import Throttles, judge_end, judge_records, judge_rest, judge_strike, judge_words
from faults.log_dir_run import LogDirRun
from faults.ours.processes import Processes, Triggerer
from faults.run import Run
from faults.strike import Strike


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
        return Result(case.name, case.seed, problems=[*result.problems, f"{type(broken).__name__}: {broken}"])
    result.passed = not result.problems
    return result


def _run_and_judge(
    cluster: FaultCluster, processes: Processes, case: Case, result: Result, *, keep_topic: bool
) -> None:
    """Fills in the result. Afterwards the cluster is as before, or `problems` says what is not."""
    cluster.make_topic(case.topic)
    journal = processes.folder / "acknowledged.txt"
    options = cluster.local.bootstrap_servers, case.topic, len(BEFORE), BULK_BYTES, str(journal)
    records = load.LoadProcess(processes.context, load.write_and_read, *options)
    try:
        records.start()
        run = (LogDirRun if case.is_between_log_dirs else Run)(cluster, processes, case, records)
        run.approve()
        before = cluster.throttles()
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
        if isinstance(run, LogDirRun):
            result.problems += _end_between_log_dirs(run, strike, result, before)
        elif case.kind.ending is Ending.TOLD:
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


def _end_between_log_dirs(run: LogDirRun, strike: Strike, result: Result, before: Throttles) -> Iterator[str]:
    """Clears the run or lets the janitor look, as the case needs. Then a second run must succeed on the same topic."""
    cluster, topic = run.cluster, run.case.topic
    yield from judge_strike(run, strike)
    yield from log_dir_judge.judge_rates(strike)
    yield from log_dir_judge.judge_run(run, result.state, before)
    cluster.wait("all brokers and replicas are in sync again", lambda: cluster.healthy(topic))
    if run.case.kind.ending is Ending.TOLD:
        if result.state == "success":
            yield "the run says success, but a task or a replica was taken from it"
        run.tend()
    elif result.state != "success":
        state = run.execute()
        result.cleared = state == "success"
        yield from () if result.cleared else [f"the run did not succeed when it was cleared: {run.errors[-1]}"]
        yield from log_dir_judge.judge_run(run, state, before)
    yield from log_dir_judge.judge_rest(run, run.look(), before)
    second = run.again()
    second.approve()
    state = second.execute()
    yield from () if state == "success" else [f"a second run did not succeed: {second.errors[-1]}"]
    yield from log_dir_judge.judge_run(second, state, before)
    yield from log_dir_judge.judge_rest(second, second.look(), before)
