"""Judges how a run between log dirs has ended, by the brokers' own folders, the cluster and the records.

What must hold, whatever struck the run:

1. While a replica is copied, the run's rate is in force on its broker.
2. After the end no rate is left, those of others are as before, and neither lock nor lease is left.
3. Each replica lies in its log dir of before or in the approved one, or where somebody else has sent it.
4. The verification says of each replica what its folder says, and success is never said of anything else.
5. No copy goes on once the run has ended as approved, or the janitor has looked.
6. No acknowledged record is lost or damaged (`judge.judge_records`).
7. A second run on the same topic succeeds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from faults.cases import Fault
from faults.clusters.fault_cluster import COPYING, LOG_DIRS
from faults.clusters.replica_folders import DirsTruth, Replica
from faults.judge import Throttles
from faults.log_dir_run import LogDirRun
from faults.strike import Strike


def judge_rates(strike: Strike) -> Iterator[str]:
    """Findings about copies that ran without the run's rate, as far as the strike has looked."""
    for copy in sorted(strike.unthrottled):
        yield f"the copy of {copy} went on without the run's rate"


def judge_run(run: LogDirRun, state: str, before: Throttles) -> Iterator[str]:
    """Findings about an end that the run calls `state`."""
    if state != "success" and not run.errors:
        yield "the run failed and did not say why"
    if run.dirs is None:
        if run.case.fault is not Fault.LOG_DIR_LOST:
            yield f"nothing was verified: {run.errors[-1:]}"
        return
    moves = approved_moves(run)
    yield from judge_verification(run, moves)
    now = run.dirs[1]
    if state == "success":
        wrong = [replica for replica, (_, after) in moves.items() if now.lying.get(replica) != after]
        if wrong or now.coming:
            yield f"the run says success, but {wrong} are elsewhere, and {now.coming} are copied: {now.lying}"
        yield from _left(now, before)


def judge_verification(run: LogDirRun, moves: Mapping[Replica, tuple[str, str]]) -> Iterator[str]:
    """Whether verification.json says of each replica what its folder said before or after the verification."""
    said = json.loads((run.folder / "verification.json").read_text(encoding="utf-8"))["checks"]
    passed = {one["subject"]: one["passed"] for one in said if one["name"] == "log_dir"}
    assert run.dirs is not None
    for replica, (_, after) in moves.items():
        subject = f"{run.case.topic}-{replica[0]} on broker {replica[1]}"
        truths = [look.lying.get(replica) == after and replica not in look.coming for look in run.dirs]
        if passed.get(subject) not in truths:
            yield f"verification.json says {passed.get(subject)} of {subject}, its folders say {truths}"


def judge_rest(run: LogDirRun, now: DirsTruth, before: Throttles) -> Iterator[str]:
    """What is left after somebody has cleared the run, or the janitor has looked."""
    yield from _left(now, before)
    if now.coming:
        yield f"copies go on after the end: {now.coming}"
    moves = approved_moves(run)
    elsewhere = {replica: name for replica, name in now.lying.items() if name not in moves.get(replica, (LOG_DIRS[0],))}
    is_sent = run.case.fault is Fault.LOG_DIR_ELSEWHERE and [broker for _, broker in elsewhere] == [COPYING]
    if elsewhere and not is_sent:
        yield f"these lie neither where they were nor where it was approved: {elsewhere}; approved: {moves}"


def approved_moves(run: LogDirRun) -> dict[Replica, tuple[str, str]]:
    """The names of the log dirs before and after of each replica that the approved plan moves."""
    plan = json.loads((run.folder / "log_dirs.json").read_text(encoding="utf-8"))["plan"]
    return {
        (move["partition"], move["broker"]): (Path(move["before"]).name, Path(move["after"]).name)
        for move in plan["moves"]
        if move["topic"] == run.case.topic
    }


def _left(now: DirsTruth, before: Throttles) -> Iterator[str]:
    if now.cluster.throttles != before:
        yield f"throttles are {now.cluster.throttles}, were {before}"
    if now.cluster.locked:
        yield "the cluster is still locked"
    if now.leased:
        yield "the lease is still open"
