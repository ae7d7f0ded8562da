"""A run in every state that `RunState` knows, and in each way of it that its first screen says in words of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.pages.run_state import RunState
from kafka_rebalance.run.approval_rules import REJECT
from support.airflow.web_run import Run, waiting
from support.airflow.web_stages import ENDED, STAGES, of_today
from support.documents import report_samples as samples
from support.documents.segment_samples import SMALL_SEGMENTS, TOPIC, segments


@dataclass(frozen=True, slots=True)
class Case:
    """`in_airflow` is the Dag run's state. A document that is None is not there. `snapshot` has changed keys."""

    state: RunState
    in_airflow: str = "running"
    documents: Mapping[str, Any] = field(default_factory=dict)
    snapshot: Mapping[str, Any] = field(default_factory=dict)
    is_asked: bool = False
    words: str = ""  # that the first line begins with; empty: the sentence of the state

    def run(self) -> Run:
        """A new one, with these documents."""
        made = Run(state=self.in_airflow).ready()
        if self.is_asked:
            waiting(made)
        for name, content in self.documents.items():
            if content is None:
                (made.folder / name).unlink()
            else:
                json_files.write_json(made.folder, name, of_today(content))
        known = json_files.read_json(made.folder, json_files.SNAPSHOT)
        reason = {"reason": "Brokers 5 and 6 are new and hold nothing"}
        json_files.write_json(made.folder, json_files.SNAPSHOT, known | reason | of_today(dict(self.snapshot)))
        return made


def _proposals(**changes: Any) -> dict[str, Any]:
    """None is recommended, and all of them are like this."""
    made = samples.proposals()
    return made | {"recommended": None, "candidates": [one | changes for one in made["candidates"]]}


def _behind() -> dict[str, Any]:
    """Of one partition a new replica is not in sync yet."""
    found = samples.verification(passed=True)
    for check in found["checks"]:
        if check["name"] == "in_sync" and check["subject"].endswith("-3"):
            check |= {"passed": False, "finding": "[2, 3] in sync, [6] not"}
    return found | {"passed": False, "again": True}


def _not_moved(why: str) -> dict[str, Any]:
    left = [str(move.topic_partition) for move in samples.moves()[17:]]
    return {json_files.VERIFICATION: samples.verification() | {"not_moved": {"why": why, "partitions": left}}}


def _stopped_copies() -> dict[str, Any]:
    found = segments({TOPIC: SMALL_SEGMENTS})
    return found | {"candidates": dict.fromkeys(samples.DIGESTS, found["candidates"]["light"])}


_NOTHING = {
    metric: {"max_over_mean": 1.62, "min_over_mean": 0.0, "cv": 0.7} for metric in ("disk", "leaders", "replicas")
}
_NO_MOVES: dict[str, Any] = {
    **dict.fromkeys(("moved_replicas", "moved_bytes", "leader_changes", "batches", "moved_bytes_bound"), 0),
    **dict.fromkeys(("makespan_seconds", "makespan_bound_seconds", "peak_disk_fraction", "worst_case"), None),
    **{"groups": [], "scores": {"before": _NOTHING, "after": _NOTHING}},
}
_BEYOND = "The job copies 287 GiB at least, and max_bytes is 100 GiB. Raise the limit, or ask for less."
_RIGHT = {"subject": "/admin", "problem": "this ZooKeeper user may not write it", "remedy": "Give it the right"}
_APPROVED = {json_files.DECISION: samples.decision()}
_TONIGHT = {"not_before": "2026-05-03T22:00:00+00:00", "finish_by": "2026-05-03T23:59:00+00:00"}
_AGAIN = {json_files.BATCHES: ENDED, json_files.VERIFICATION: _behind()}
_STOP = {"at": "2026-05-03T15:08:00+00:00", "why": "No further batch was requested, as uma asked."}
_UMA = {"by": "uma", "at": "2026-05-03T15:08:00+00:00"}
_ENDED_BATCHES: list[dict[str, Any]] = [*ENDED["batches"]][:2]
_STOPPED = {
    json_files.BATCHES: {"batches": _ENDED_BATCHES, "stopped": _STOP},
    json_files.CONTROL: {"stop_after_batch": _UMA},
    **_not_moved(_STOP["why"]),
}
_CANCELLED = {
    json_files.BATCHES: {
        "batches": [_ENDED_BATCHES[0], _ENDED_BATCHES[1] | {"state": "cancelled"}],
        "stopped": _STOP | {"why": "Batch 2 was cancelled, as uma asked."},
    },
    json_files.CANCELLED: {"cancelled": _UMA},
    **_not_moved("Batch 2 was cancelled, as uma asked."),
}
_UNDER_WAY, _FAILED = STAGES["executing"], STAGES["failed"]
_HALF = "Stopped: 17 of 34 approved moves were not made"

CASES: dict[str, Case] = {
    "planning": Case(RunState.PLANNING, documents={json_files.PROPOSALS: None}),
    "planned": Case(RunState.PLANNED),
    "read-only": Case(RunState.READ_ONLY, "success", snapshot={"policy": None}),
    "rights-missing": Case(RunState.RIGHTS_MISSING, "success", snapshot={"missing_rights": [_RIGHT]}),
    "copies-would-stop": Case(RunState.COPIES_WOULD_STOP, documents={json_files.SEGMENTS: _stopped_copies()}),
    "nothing-to-move": Case(
        RunState.NOTHING_TO_MOVE,
        "success",
        {json_files.PROPOSALS: _proposals(**_NO_MOVES)},
    ),
    "infeasible": Case(
        RunState.NOTHING_TO_MOVE,
        "success",
        {json_files.PROPOSALS: _proposals(status="infeasible", note=_BEYOND, **_NO_MOVES)},
        words="Not possible: no candidate does the job within its limits",
    ),
    "waiting": Case(RunState.WAITING, is_asked=True),
    "rejected": Case(RunState.REJECTED, "success", {json_files.DECISION: samples.decision(REJECT)}),
    "unanswered": Case(RunState.UNANSWERED, "failed", {json_files.DECISION: {"choice": None}}),
    "approved": Case(RunState.APPROVED, documents=_APPROVED),
    "approved-for-tonight": Case(RunState.APPROVED, documents=_APPROVED, snapshot={"window": _TONIGHT}),
    "executing": Case(RunState.EXECUTING, documents=_UNDER_WAY),
    "waiting-for-a-broker": Case(RunState.EXECUTING, documents=STAGES["paused"]),
    "catching-up": Case(RunState.CATCHING_UP, documents=_UNDER_WAY | _AGAIN),
    "verified": Case(RunState.VERIFIED, "success", STAGES["verified"]),
    "failed": Case(RunState.NOT_AS_APPROVED, "failed", _FAILED),
    "stopped": Case(RunState.NOT_AS_APPROVED, "failed", _FAILED | _STOPPED, words=_HALF),
    "cancelled": Case(RunState.NOT_AS_APPROVED, "failed", _FAILED | _CANCELLED, words=_HALF),
    "ended-without-plan": Case(RunState.ENDED_WITHOUT_PLAN, "failed", {json_files.PROPOSALS: None}),
    "ended-undecided": Case(RunState.ENDED_UNDECIDED, "failed"),
    "ended-before-batches": Case(RunState.ENDED_BEFORE_BATCHES, "failed", _APPROVED),
    "broken-off": Case(RunState.BROKEN_OFF, "failed", _UNDER_WAY),
    "not-in-sync": Case(RunState.NOT_IN_SYNC, "failed", _UNDER_WAY | _AGAIN),
}
