"""Judges how a run has ended, by the cluster and the records alone. What the run says is compared with them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faults import load
from faults.cases import Case, Ending, Fault
from faults.clusters.fault_cluster import AFTER, BEFORE, FaultCluster, Truth
from faults.run import Run
from faults.strike import Strike

Throttles = Mapping[str, Mapping[str, str]]
# An error of Python's own, which says neither what was done to the cluster nor what to do. No run may end with one.
RAW = re.compile(r"^\w+: (OSError|(FileNotFound|Permission|Key|Type|Value|Attribute|JSONDecode)Error)\b")


def judge_end(run: Run, strike: Strike, state: str, before: Throttles) -> list[str]:
    """Findings about an end that the run calls `state`. `before`: the throttles before the run."""
    problems = judge_strike(run, strike)
    if run.truths is None:
        return [*problems, f"nothing was verified: {run.errors[-1] if run.errors else 'no error says why'}"]
    wanted = _throttles_wanted(run.case, before)
    passed = _verified(run.folder)
    truths = [truth.as_approved and truth.throttles in wanted for truth in run.truths]
    if passed is not None and passed not in truths and run.case.fault is not Fault.THROTTLE_LIFTED:
        problems.append(f"verification.json says passed={passed}, the cluster does not: {run.truths[1]}")
    now = run.truths[1]
    if state == "success":
        # A broker that is killed as the copies end stays in the ISR until its session ends, perhaps after `verify`.
        if not any(truth.as_approved for truth in run.truths):
            problems.append(f"the run says success, but the end is not the approved one: {now}")
        if now.throttles not in wanted:
            problems.append(f"the run says success, but throttles are {now.throttles}, were {before}")
        if now.locked:
            problems.append("the run says success, but the cluster is still locked")
        if run.case.kind.ending is Ending.TOLD:
            problems.append("the run says success, but its topic or its folder was gone")
    elif not run.errors:
        problems.append("the run failed and did not say why")
    return problems


def judge_strike(run: Run, strike: Strike) -> list[str]:
    """Findings about the fault itself: it was not made, or not healed. Also a second request."""
    problems = [strike.problem] if strike.problem else []
    if strike.struck_at is None:
        problems.append("the fault was not made: the run was over before its moment came")
    if run.case.fault in {Fault.WORKER, Fault.TRIGGERER, Fault.LOG_DIR_STEP, Fault.LOG_DIR_LOST} and not run.kills:
        problems.append("the fault was not made: no process of ours was killed")
    if len(strike.requests) > 1:
        problems.append(f"the reassignment was requested {len(strike.requests)} times")
    return problems


def judge_words(run: Run, told: str) -> list[str]:
    """Findings about what the run said. `told` is all of that: errors, logs and notes."""
    problems = [f"an error of Python's own: {error[:200]}" for error in run.errors if RAW.match(error)]
    wanted = run.case.kind.told
    if wanted and not re.search(wanted, told):
        problems.append(f"nothing that the run said matches {wanted!r}; its last error: {run.errors[-1:]}")
    return problems


def judge_rest(now: Truth, before: Throttles) -> list[str]:
    """What a run that could not succeed has left, after somebody followed its advice and the janitor has looked."""
    problems = []
    if now.throttles != before:
        problems.append(f"throttles are {now.throttles}, were {before}")
    if now.locked:
        problems.append("the cluster is still locked")
    if now.reassigning or now.marked:
        problems.append("something is still in motion")
    if any(replicas not in (BEFORE[partition], AFTER[partition]) for partition, replicas in now.replicas.items()):
        problems.append(f"the lists are neither the approved ones nor those before: {now.replicas}")
    return problems


def judge_records(cluster: FaultCluster, case: Case, journal: Path, seen: load.LoadResult) -> tuple[int, list[str]]:
    """The number of lost acknowledged records, and the findings about all records."""
    found, acknowledged, lost = _records(cluster, case.topic, journal)
    problems = []
    if lost:
        problems.append(f"{len(lost)} of {len(acknowledged)} acknowledged records are lost, first {lost[0]}")
    if len(acknowledged) != seen.acknowledged:
        problems.append(
            f"{len(acknowledged)} acknowledgements are in the journal, but {seen.acknowledged} were counted"
        )
    damaged = sum(number is None for number in found.values()) + seen.damaged
    if damaged:
        problems.append(f"{damaged} records came back with a wrong checksum")
    if not seen.consumed:
        problems.append("nothing was consumed during the move")
    return len(lost), problems


def missing_records(cluster: FaultCluster, topic: str, journal: Path) -> tuple[int, list[load.Acknowledged]]:
    """The number of acknowledged records, and those of them that are lost."""
    _, acknowledged, lost = _records(cluster, topic, journal)
    return len(acknowledged), lost


def _records(
    cluster: FaultCluster, topic: str, journal: Path
) -> tuple[dict[tuple[int, int], int | None], list[load.Acknowledged], list[load.Acknowledged]]:
    found = load.read_back(cluster.local.bootstrap_servers, topic, len(BEFORE))
    acknowledged = load.read_journal(journal)
    lost = [record for record in acknowledged if found.get((record.partition, record.offset)) != record.number]
    return found, acknowledged, lost


def _throttles_wanted(case: Case, before: Throttles) -> tuple[Throttles, ...]:
    """If somebody lifted every throttle, the run need not put back the earlier ones."""
    return (before, {}) if case.fault is Fault.THROTTLE_LIFTED else (before,)


def _verified(folder: Path) -> Any:
    """Whether the verification passed; None if there is none."""
    try:
        return json.loads((folder / "verification.json").read_text(encoding="utf-8"))["passed"]
    except FileNotFoundError:
        return None
