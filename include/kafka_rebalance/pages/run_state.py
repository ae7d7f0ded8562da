"""Where a run stands. The run's page, the clusters' page and notices all take it from here.

The files of a run say what was done. Only Airflow knows whether the run goes on, and whether a request is open.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, StrEnum

from kafka_rebalance.documents.progress import BatchNotes
from kafka_rebalance.documents.proposals import Proposals, ProposedCandidate
from kafka_rebalance.documents.segments import SegmentReport
from kafka_rebalance.documents.snapshot import SnapshotTaken
from kafka_rebalance.model.candidate import OFFERED
from kafka_rebalance.run.approval_rules import Decision
from kafka_rebalance.run.check_result import Verification

ACTIVE_STATES = frozenset({"queued", "running"})  # states of an Airflow Dag run that goes on


class Tone(StrEnum):
    """The colour of a state, as a CSS class; worst first."""

    BAD = "bad"
    ATTENTION = "attention"
    GOOD = "good"
    CALM = "calm"


class Action(StrEnum):
    """What a person may do. The values in _BY_CANCEL are those of `action` in the Dag kafka_rebalance_cancel."""

    ANSWER = "answer"  # approve or reject, under Required Actions
    STOP, CANCEL, SET_THROTTLE, ROLL_BACK = "stop_after_batch", "cancel_now", "set_throttle", "roll_back"
    GIVE_BACK = "give_back"  # of a demote: elect its leaders again, a job of kafka_rebalance
    ASK_AGAIN, GO_ON, VERIFY_AGAIN, START_ANEW = "ask_again", "go_on", "verify_again", "start_anew"
    FIND_CAUSE = "find_cause"  # why the run ended as it did


_BY_TASKS = {
    Action.FIND_CAUSE: "The log of the task that failed says why.",
    Action.ASK_AGAIN: "To be asked for the same plan again, clear the task approve.",
    Action.GO_ON: "To continue with the approved plan, clear the task hold_throttle and all tasks after it.",
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
    """Whether a plan has anything to approve."""

    SOMETHING, NOTHING, COPIES_WOULD_STOP = range(3)


class RequestAnswer(Enum):
    """NONE: the request expired, or it ended otherwise without an answer."""

    APPROVED, REJECTED, NONE = range(3)


class Verified(Enum):
    """CATCHING_UP: only a replica that is not in sync failed the verification, and the run verifies again."""

    PASSED, FAILED, CATCHING_UP = range(3)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts that decide the state of a run."""

    is_active: bool = True  # Airflow has it queued or running
    has_open_request: bool | None = None  # None: nobody asked Airflow. Then a request counts as open
    has_plan: bool = False
    is_writable: bool = True  # the cluster has a policy
    has_rights: bool = True  # the connection may write what a rebalance needs
    moves: Moves = Moves.SOMETHING
    answer: RequestAnswer | None = None
    batches: int = 0  # in batches.json, which notes a batch before it is requested
    verified: Verified | None = None


_ASKED = (
    "No decision yet. Once the request is open, answer under Browse → Required Actions, or on the task approve of "
    "this run."
)
_ENDED = "The run ended without a decision. If an answer did not count, the log of the task approve says why."
_WHILE_IT_RUNS = (Action.STOP, Action.CANCEL, Action.SET_THROTTLE)


class RunState(Enum):
    """Every state that a run can be in, with what is said of it and what a person may do."""

    def __init__(
        self, word: str, sentence: str, tone: Tone, actions: tuple[Action, ...] = (), no_decision: str = ""
    ) -> None:
        self.word = word  # on the clusters' page and in notices
        self.sentence = sentence  # on the run's page
        self.tone = tone
        self.actions = actions
        self.no_decision = no_decision  # why there is no decision; empty if there is one

    PLANNING = "being planned", "The plan is being made", Tone.CALM, (), "There is no plan to decide on yet."
    PLANNED = "planned, no request is open", "Planned; the request for approval is not open yet", Tone.CALM, (), _ASKED
    READ_ONLY = (
        "read-only",
        "Read-only: this cluster has no policy file, so nothing can be approved, see Limits",
        Tone.CALM,
        (Action.START_ANEW,),
        "Nobody can decide: this cluster is read-only.",
    )
    RIGHTS_MISSING = (
        "read-only, rights are missing",
        "Read-only: this connection may not write what a rebalance needs, see Limits",
        Tone.ATTENTION,
        (Action.START_ANEW,),
        "The run does not ask for approval: this connection may not write what a rebalance needs.",
    )
    COPIES_WOULD_STOP = (
        "not offered, copies could not end",
        "Not offered for approval: with today's segment settings, its copies could not end",
        Tone.BAD,
        (Action.START_ANEW,),
        "The run does not ask for approval: with today's segment settings, no copy could end.",
    )
    NOTHING_TO_MOVE = (
        "nothing to move",
        "Nothing to move",
        Tone.CALM,
        (Action.START_ANEW,),
        "The run does not ask for approval: no candidate moves anything.",
    )
    WAITING = "waits for approval", "Waits for approval", Tone.ATTENTION, (Action.ANSWER,), _ASKED
    REJECTED = "rejected", "Rejected: nothing was written to the cluster", Tone.CALM, (Action.START_ANEW,)
    UNANSWERED = (
        "expired without an answer",
        "Ended without an answer: nothing was written to the cluster",
        Tone.CALM,
        (Action.ASK_AGAIN, Action.START_ANEW),
    )
    APPROVED = "approved, not started", "Approved, not started yet", Tone.ATTENTION, _WHILE_IT_RUNS
    EXECUTING = (
        "reassigning",
        "Approved; the reassignment was started and is not verified yet",
        Tone.ATTENTION,
        _WHILE_IT_RUNS,
    )
    CATCHING_UP = (
        "in place, replicas not in sync yet",
        "In place, but some replicas are not in sync yet; the run verifies again",
        Tone.ATTENTION,
        (Action.ROLL_BACK,),
    )
    VERIFIED = "done and verified", "Done and verified", Tone.GOOD, (Action.GIVE_BACK, Action.ROLL_BACK)
    NOT_AS_APPROVED = (
        "verification failed",
        "Verification failed: the cluster is not as approved",
        Tone.BAD,
        (Action.GO_ON, Action.VERIFY_AGAIN, Action.ROLL_BACK, Action.START_ANEW),
    )
    ENDED_WITHOUT_PLAN = (
        "ended before there was a plan",
        "Ended before there was a plan: nothing was written to the cluster",
        Tone.CALM,
        (Action.FIND_CAUSE, Action.START_ANEW),
        _ENDED,
    )
    ENDED_UNDECIDED = (
        "planned, ended without a decision",
        "Ended without a decision: nothing was written to the cluster",
        Tone.CALM,
        (Action.FIND_CAUSE, Action.ASK_AGAIN, Action.START_ANEW),
        _ENDED,
    )
    ENDED_BEFORE_BATCHES = (
        "approved, ended before it began",
        "Approved, but the run ended before it requested anything from Kafka",
        Tone.CALM,
        (Action.FIND_CAUSE, Action.GO_ON, Action.START_ANEW),
    )
    BROKEN_OFF = (
        "reassignment started, end not verified",
        "The reassignment was started, but the run ended before it verified the end",
        Tone.BAD,
        (Action.FIND_CAUSE, Action.GO_ON, Action.CANCEL, Action.ROLL_BACK),
    )
    NOT_IN_SYNC = (
        "verification failed, replicas not in sync",
        "In place, but verification failed: replicas were not in sync",
        Tone.BAD,
        (Action.VERIFY_AGAIN, Action.ROLL_BACK),
    )

    @property
    def next_steps(self) -> str:
        """What a person may do now, and how; empty if nothing, or only to answer."""
        sentences = [words for action, words in _BY_TASKS.items() if action in self.actions]
        *others, last = [words for action, words in _BY_CANCEL.items() if action in self.actions] or [""]
        if last:
            can = f"{', '.join(others)} or {last}" if others else last
            sentences.append(f"The Dag kafka_rebalance_cancel can {can}.")
        return " ".join(sentences)

    @property
    def is_approved_only(self) -> bool:
        """Whether it was approved, and no batch was requested."""
        return self in (RunState.APPROVED, RunState.ENDED_BEFORE_BATCHES)

    @property
    def is_unverified(self) -> bool:
        """Whether batches were requested, and nobody has verified the end."""
        return self in (RunState.EXECUTING, RunState.BROKEN_OFF)

    @property
    def is_judged(self) -> bool:
        """Whether the run has verified the end, with any result."""
        return self in (RunState.VERIFIED, RunState.NOT_AS_APPROVED, RunState.CATCHING_UP, RunState.NOT_IN_SYNC)

    @property
    def may_be_written(self) -> bool:
        """Whether the run has written nothing of the plan yet, and still may."""
        return self in (RunState.PLANNED, RunState.WAITING, RunState.APPROVED)

    @property
    def is_before_writes(self) -> bool:
        return self is RunState.PLANNING or self.may_be_written

    @property
    def changes_by_itself(self) -> bool:
        """Whether the page changes without an answer of a person."""
        return self in (
            RunState.PLANNING, RunState.PLANNED, RunState.APPROVED, RunState.EXECUTING, RunState.CATCHING_UP,
        )  # fmt: skip

    @property
    def waits_for_people(self) -> bool:
        """Whether the page changes when somebody answers, or when Airflow ends the run."""
        return self in (RunState.WAITING, RunState.COPIES_WOULD_STOP, RunState.NOTHING_TO_MOVE)


def run_state(facts: RunFacts) -> RunState:
    """The first state of the list that fits the facts."""
    is_active, answer, verified = facts.is_active, facts.answer, facts.verified
    has_begun = facts.batches > 0
    states = (
        (verified is Verified.PASSED, RunState.VERIFIED),
        (verified is Verified.FAILED, RunState.NOT_AS_APPROVED),
        (verified is Verified.CATCHING_UP, RunState.CATCHING_UP if is_active else RunState.NOT_IN_SYNC),
        (answer is RequestAnswer.REJECTED, RunState.REJECTED),
        (answer is RequestAnswer.NONE, RunState.UNANSWERED),
        (answer is not None and has_begun, RunState.EXECUTING if is_active else RunState.BROKEN_OFF),
        (answer is not None, RunState.APPROVED if is_active else RunState.ENDED_BEFORE_BATCHES),
        (is_active and facts.has_open_request, RunState.WAITING),  # whatever the plan: there is something to answer
        (not facts.has_plan, RunState.PLANNING if is_active else RunState.ENDED_WITHOUT_PLAN),
        (not facts.is_writable, RunState.READ_ONLY),
        (facts.moves is Moves.NOTHING, RunState.NOTHING_TO_MOVE),
        (not facts.has_rights, RunState.RIGHTS_MISSING),
        (facts.moves is Moves.COPIES_WOULD_STOP, RunState.COPIES_WOULD_STOP),
        (not is_active, RunState.ENDED_UNDECIDED),
        (facts.has_open_request is False, RunState.PLANNED),
    )
    return next((state for fits, state in states if fits), RunState.WAITING)


def run_facts(
    *,
    snapshot: SnapshotTaken | None = None,
    proposals: Proposals | None = None,
    segments: SegmentReport | None = None,
    decision: Decision | None = None,
    batches: BatchNotes | None = None,
    verification: Verification | None = None,
    is_active: bool = True,
    has_open_request: bool | None = None,
) -> RunFacts:
    """The facts in a run's files and in Airflow."""
    plan = proposals.candidates if proposals is not None else ()
    stopped = segments.stopped if segments is not None else ()
    answer, verified = None, None
    if decision is not None:
        given = RequestAnswer.APPROVED if decision.is_approval else RequestAnswer.REJECTED
        answer = RequestAnswer.NONE if decision.choice is None else given
    if verification is not None:
        failed = Verified.CATCHING_UP if verification.again else Verified.FAILED
        verified = Verified.PASSED if verification.passed else failed
    return RunFacts(
        is_active=is_active,
        has_open_request=has_open_request,
        has_plan=bool(plan),
        is_writable=snapshot is None or snapshot.policy is not None,
        has_rights=snapshot is None or not snapshot.missing_rights,
        moves=_moves(plan, stopped) if plan else Moves.SOMETHING,
        answer=answer,
        batches=0 if batches is None else len(batches.batches),
        verified=verified,
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
