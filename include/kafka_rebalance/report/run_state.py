"""Where a run stands: told in one place, for its page, the clusters' page and notices.

Files say what was done. Airflow alone says whether the run goes on, and whether somebody is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from kafka_rebalance.documents.decision import DECISION_FILE, Decision
from kafka_rebalance.documents.proposals.proposals import PROPOSALS_FILE, ProposedCandidate
from kafka_rebalance.documents.reassignment.batches import BATCHES_FILE
from kafka_rebalance.documents.segments import SEGMENTS_FILE
from kafka_rebalance.documents.verification import VERIFICATION_FILE, Verification
from kafka_rebalance.execution.approval_rules import OFFERED

ACTIVE_STATES = frozenset({"queued", "running"})  # of Airflow's Dag run: it is not over


class Tone(StrEnum):
    """The colour of a state, as a CSS class; worst first."""

    BAD = "bad"
    ATTENTION = "attention"
    GOOD = "good"
    CALM = "calm"


class Action(StrEnum):
    """What a person may do. Those of _BY_CANCEL are values of `action` in the Dag kafka_rebalance_cancel."""

    ANSWER = "answer"  # approve or reject, under Required Actions
    STOP, CANCEL, SET_THROTTLE, ROLL_BACK = "stop_after_batch", "cancel_now", "set_throttle", "roll_back"
    GO_ON, VERIFY_AGAIN, START_ANEW = "go_on", "verify_again", "start_anew"


_BY_TASKS = {
    Action.GO_ON: "To go on with the approved plan, clear the task hold_throttle with what follows it.",
    Action.VERIFY_AGAIN: "To verify again, clear the task verify.",
    Action.START_ANEW: "To plan again, start a new Dag run.",
}
_BY_CANCEL = {
    Action.STOP: "stop the run after its batch",
    Action.CANCEL: "cancel the reassignment",
    Action.SET_THROTTLE: "change the throttle",
    Action.ROLL_BACK: "move the replicas back",
}


class Moves(Enum):
    """What of a plan could be approved."""

    SOMETHING, NOTHING, COPIES_WOULD_STOP = range(3)


class RequestAnswer(Enum):
    """Of a request. NONE: it expired, or ended otherwise without an answer."""

    APPROVED, REJECTED, NONE = range(3)


class Verified(Enum):
    """What the verification found. CATCHING_UP: it failed only since a replica is not in sync now; it tries again."""

    PASSED, FAILED, CATCHING_UP = range(3)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a state is told by."""

    is_active: bool = True  # queued or running, for Airflow
    has_open_request: bool | None = None  # None: nobody asked Airflow; taken for yes
    has_plan: bool = False
    is_writable: bool = True  # the cluster has a policy
    moves: Moves = Moves.SOMETHING
    answer: RequestAnswer | None = None
    batches: int = 0  # that were noted, from "about to be requested" on
    verified: Verified | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    word: str  # on the clusters' page and in notices
    sentence: str  # on the run's page
    tone: Tone
    actions: tuple[Action, ...] = ()
    no_decision: str = ""  # why there is no decision; empty where there is one


_ASKED = (
    "No decision yet. Once the request is open, answer under Browse → Required Actions, or on the task approve of "
    "this run."
)
_ENDED = "The run ended without a decision. If an answer did not count, the log of the task approve says why."
_WHILE_IT_RUNS = (Action.STOP, Action.CANCEL, Action.SET_THROTTLE)


class RunState(Enum):
    """Every state that a run can be in."""

    PLANNING = _Row(
        "being planned",
        "The plan is being made",
        Tone.CALM,
        no_decision="There is no plan yet to decide on.",
    )
    PLANNED = _Row(
        "planned, no request is open",
        "Planned; no approval request is open at this moment",
        Tone.CALM,
        no_decision=_ASKED,
    )
    READ_ONLY = _Row(
        "read-only",
        "Read-only: this cluster has no policy file, so nothing can be approved or executed",
        Tone.CALM,
        no_decision="Nothing can be decided: this cluster is read-only.",
    )
    COPIES_WOULD_STOP = _Row(
        "not offered, copies could not end",
        "Not offered for approval: with today's segment settings its copies could not end",
        Tone.BAD,
        (Action.START_ANEW,),
        "There is nothing to decide on, so the run asks nobody: with today's segment settings no copy could end.",
    )
    NOTHING_TO_MOVE = _Row(
        "nothing to move",
        "Nothing to move",
        Tone.CALM,
        (Action.START_ANEW,),
        "There is nothing to decide on, so the run asks nobody: no candidate moves anything.",
    )
    WAITING = _Row("waits for approval", "Waits for approval", Tone.ATTENTION, (Action.ANSWER,), _ASKED)
    REJECTED = _Row("rejected", "Rejected: nothing was written to the cluster", Tone.CALM, (Action.START_ANEW,))
    UNANSWERED = _Row(
        "expired without an answer",
        "Ended without an answer: nothing was written to the cluster",
        Tone.CALM,
        (Action.START_ANEW,),
    )
    APPROVED = _Row("approved, not started", "Approved, not started yet", Tone.ATTENTION, _WHILE_IT_RUNS)
    EXECUTING = _Row(
        "reassigning",
        "Approved; the reassignment was started and is not verified yet",
        Tone.ATTENTION,
        _WHILE_IT_RUNS,
    )
    CATCHING_UP = _Row(
        "in place, replicas not in sync yet",
        "In place, but for replicas that are not in sync at this moment; it is verified again",
        Tone.ATTENTION,
        (Action.ROLL_BACK,),
    )
    VERIFIED = _Row("done and verified", "Done and verified", Tone.GOOD, (Action.ROLL_BACK,))
    NOT_AS_APPROVED = _Row(
        "verification failed",
        "Verification failed: the end is not the approved one",
        Tone.BAD,
        (Action.GO_ON, Action.VERIFY_AGAIN, Action.ROLL_BACK),
    )
    ENDED_WITHOUT_PLAN = _Row(
        "ended before there was a plan",
        "Ended before there was a plan: nothing was written to the cluster",
        Tone.CALM,
        (Action.START_ANEW,),
        _ENDED,
    )
    ENDED_UNDECIDED = _Row(
        "planned, ended without a decision",
        "Ended without a decision: nothing was written to the cluster",
        Tone.CALM,
        (Action.START_ANEW,),
        _ENDED,
    )
    ENDED_BEFORE_BATCHES = _Row(
        "approved, ended before it began",
        "Approved, and ended before anything was requested from Kafka",
        Tone.CALM,
        (Action.GO_ON, Action.START_ANEW),
    )
    BROKEN_OFF = _Row(
        "reassignment started, end not verified",
        "The reassignment was started, and the run ended before its end was verified",
        Tone.BAD,
        (Action.GO_ON, Action.CANCEL, Action.ROLL_BACK),
    )
    NOT_IN_SYNC = _Row(
        "verification failed, replicas not in sync",
        "In place, and verification failed: replicas were not in sync",
        Tone.BAD,
        (Action.VERIFY_AGAIN, Action.ROLL_BACK),
    )

    @property
    def word(self) -> str:
        """In a few words."""
        return self.value.word

    @property
    def sentence(self) -> str:
        return self.value.sentence

    @property
    def no_decision(self) -> str:
        """Why there is no decision; empty where there is one."""
        return self.value.no_decision

    @property
    def tone(self) -> Tone:
        return self.value.tone

    @property
    def actions(self) -> tuple[Action, ...]:
        """What a person may do now."""
        return self.value.actions

    @property
    def next_steps(self) -> str:
        """What a person may do now, and how; empty where that is nothing, or to answer."""
        said = [words for action, words in _BY_TASKS.items() if action in self.actions]
        *others, last = [words for action, words in _BY_CANCEL.items() if action in self.actions] or [""]
        if last:
            can = f"{', '.join(others)} or {last}" if others else last
            said.append(f"The Dag kafka_rebalance_cancel can {can}.")
        return " ".join(said)

    @property
    def is_approved_only(self) -> bool:
        """Whether it was approved, and no batch was requested."""
        return self in (RunState.APPROVED, RunState.ENDED_BEFORE_BATCHES)

    @property
    def is_unverified(self) -> bool:
        """Whether batches were requested of which nobody has verified the end."""
        return self in (RunState.EXECUTING, RunState.BROKEN_OFF)

    @property
    def is_judged(self) -> bool:
        """Whether the end was looked at."""
        return self in (RunState.VERIFIED, RunState.NOT_AS_APPROVED, RunState.CATCHING_UP, RunState.NOT_IN_SYNC)

    @property
    def may_be_written(self) -> bool:
        """Whether nothing of the plan has reached the cluster, and something still may."""
        return self in (RunState.PLANNED, RunState.WAITING, RunState.APPROVED)

    @property
    def is_before_writes(self) -> bool:
        """Whether the plan is being made, or may still be written."""
        return self is RunState.PLANNING or self.may_be_written

    @property
    def changes_by_itself(self) -> bool:
        """Whether the page is about to change without anybody's answer."""
        return self in (
            RunState.PLANNING, RunState.PLANNED, RunState.APPROVED, RunState.EXECUTING, RunState.CATCHING_UP,
        )  # fmt: skip

    @property
    def waits_for_people(self) -> bool:
        """Whether the page changes when somebody answers, or Airflow ends the run."""
        return self in (RunState.WAITING, RunState.COPIES_WOULD_STOP, RunState.NOTHING_TO_MOVE)


def run_state(facts: RunFacts) -> RunState:
    """The one state that the facts tell."""
    if facts.verified is not None:
        return _verified_state(facts)
    if facts.answer is not None:
        return _answered_state(facts)
    if facts.is_active and facts.has_open_request:
        return RunState.WAITING  # Airflow asks somebody: there is something to answer
    if facts.has_plan:
        return _planned_state(facts)
    return RunState.PLANNING if facts.is_active else RunState.ENDED_WITHOUT_PLAN


def _verified_state(facts: RunFacts) -> RunState:
    if facts.verified is Verified.CATCHING_UP:
        return RunState.CATCHING_UP if facts.is_active else RunState.NOT_IN_SYNC
    return RunState.VERIFIED if facts.verified is Verified.PASSED else RunState.NOT_AS_APPROVED


def _answered_state(facts: RunFacts) -> RunState:
    if facts.answer is not RequestAnswer.APPROVED:
        return RunState.REJECTED if facts.answer is RequestAnswer.REJECTED else RunState.UNANSWERED
    if facts.is_active:
        return RunState.EXECUTING if facts.batches else RunState.APPROVED
    return RunState.BROKEN_OFF if facts.batches else RunState.ENDED_BEFORE_BATCHES


def _planned_state(facts: RunFacts) -> RunState:
    if not facts.is_writable:
        return RunState.READ_ONLY
    if facts.moves is not Moves.SOMETHING:
        return RunState.NOTHING_TO_MOVE if facts.moves is Moves.NOTHING else RunState.COPIES_WOULD_STOP
    if not facts.is_active:
        return RunState.ENDED_UNDECIDED
    return RunState.PLANNED if facts.has_open_request is False else RunState.WAITING


def run_facts(
    *,
    snapshot: Mapping[str, object] | None = None,
    proposals: Mapping[str, object] | None = None,
    segments: Mapping[str, object] | None = None,
    decision: Mapping[str, object] | None = None,
    batches: Mapping[str, object] | None = None,
    verification: Mapping[str, object] | None = None,
    is_active: bool = True,
    has_open_request: bool | None = None,
) -> RunFacts:
    """Of a run's documents and of Airflow's word. Raises ArtifactError for a missing or wrong value, naming it."""
    plan = PROPOSALS_FILE.decode(proposals).candidates if proposals is not None else ()
    stopped = SEGMENTS_FILE.decode(segments).stopped if segments is not None else ()
    return RunFacts(
        is_active=is_active,
        has_open_request=has_open_request,
        has_plan=bool(plan),
        is_writable=snapshot is None or snapshot.get("policy") is not None,
        moves=_moves(plan, stopped) if plan else Moves.SOMETHING,
        answer=_answer(DECISION_FILE.decode(decision)) if decision is not None else None,
        batches=0 if batches is None else len(BATCHES_FILE.decode(batches).batches),
        verified=_verified(VERIFICATION_FILE.decode(verification)) if verification is not None else None,
    )


def _moves(plan: Collection[ProposedCandidate], stopped: Collection[str]) -> Moves:
    moving = {
        candidate.name
        for candidate in plan
        if candidate.status in OFFERED and (candidate.moved_replicas or candidate.leader_changes or candidate.batches)
    }
    if not moving:
        return Moves.NOTHING
    return Moves.COPIES_WOULD_STOP if moving <= set(stopped) else Moves.SOMETHING


def _answer(decision: Decision) -> RequestAnswer:
    if decision.choice is None:
        return RequestAnswer.NONE
    return RequestAnswer.APPROVED if decision.is_approval else RequestAnswer.REJECTED


def _verified(verification: Verification) -> Verified:
    if verification.passed:
        return Verified.PASSED
    return Verified.CATCHING_UP if verification.again else Verified.FAILED
