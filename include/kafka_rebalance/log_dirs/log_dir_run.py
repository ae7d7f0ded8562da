"""A run of `kafka_log_dirs` as its files and Airflow tell it, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from kafka_rebalance.documents.log_dir_plan import PlannedLogDirs
from kafka_rebalance.documents.progress import Progress
from kafka_rebalance.pages.run_state import Action, Tone
from kafka_rebalance.run.decision import Decision
from kafka_rebalance.run.verification import Verification


class LogDirState(Enum):
    """Every state of such a run, with what is said of it and what a person may do."""

    def __init__(self, sentence: str, tone: Tone, actions: tuple[Action, ...] = ()) -> None:
        self.sentence, self.tone, self.actions = sentence, tone, actions

    PLANNING = "The plan is being made", Tone.CALM
    NOTHING_TO_MOVE = "Nothing had to move: the log of the task plan says why", Tone.CALM, (Action.START_ANEW,)
    ENDED_WITHOUT_PLAN = (
        "Ended before there was a plan: nothing was written to the cluster",
        Tone.CALM,
        (Action.FIND_CAUSE, Action.START_ANEW),
    )
    PLANNED = "Planned; the request for approval is not open yet", Tone.CALM
    WAITING = "Waits for approval", Tone.ATTENTION, (Action.ANSWER,)
    ENDED_UNDECIDED = (
        "Ended without a decision: nothing was written to the cluster",
        Tone.CALM,
        (Action.FIND_CAUSE, Action.ASK_AGAIN, Action.START_ANEW),
    )
    REJECTED = "Rejected: nothing was written to the cluster", Tone.CALM, (Action.START_ANEW,)
    UNANSWERED = (
        "Ended without an answer: nothing was written to the cluster",
        Tone.CALM,
        (Action.ASK_AGAIN, Action.START_ANEW),
    )
    APPROVED = "Approved, not started yet", Tone.ATTENTION, (Action.STOP,)
    COPYING = "Approved; the copies were started and are not verified yet", Tone.ATTENTION, (Action.STOP,)
    PAUSED = "Waits until its window opens; the rate is put back meanwhile", Tone.CALM, (Action.STOP,)
    VERIFIED = "Done and verified", Tone.GOOD, (Action.ROLL_BACK,)
    NOT_AS_APPROVED = (
        "Verification failed: the log dirs are not as approved",
        Tone.BAD,
        (Action.FIND_CAUSE, Action.GO_ON, Action.ROLL_BACK, Action.START_ANEW),
    )
    ENDED_BEFORE_COPIES = (
        "Approved, but the run ended before it requested a copy",
        Tone.CALM,
        (Action.FIND_CAUSE, Action.GO_ON, Action.START_ANEW),
    )
    BROKEN_OFF = (
        "The copies were started, but the run ended before it verified the end",
        Tone.BAD,
        (Action.FIND_CAUSE, Action.GO_ON, Action.ROLL_BACK),
    )

    @property
    def changes_by_itself(self) -> bool:
        """Whether the page changes without an answer of a person."""
        return self in (
            LogDirState.PLANNING,
            LogDirState.PLANNED,
            LogDirState.APPROVED,
            LogDirState.COPYING,
            LogDirState.PAUSED,
        )


@dataclass(frozen=True, slots=True)
class LogDirRun:
    """The files of a run's folder; None: not written yet. The last three fields are Airflow's."""

    planned: PlannedLogDirs | None = None
    decision: Decision | None = None
    progress: Progress | None = None  # `move` writes it before its first request
    verification: Verification | None = None
    is_active: bool = True  # queued or running
    has_succeeded: bool = False
    has_open_request: bool = False

    @property
    def waits_until(self) -> datetime | None:
        """When the window opens for which the next copies wait; None if they do not wait."""
        progress = self.progress
        return progress.waiting_until if progress is not None and progress.state == "waiting" else None

    @property
    def state(self) -> LogDirState:
        """The first state of the list that fits."""
        decision, verification, is_active = self.decision, self.verification, self.is_active
        states = (
            (verification is not None and verification.passed, LogDirState.VERIFIED),
            # A clear goes on with the plan, and the checks of the earlier end stay in the folder until the next.
            (verification is not None and not is_active, LogDirState.NOT_AS_APPROVED),
            (decision is not None and decision.choice is None, LogDirState.UNANSWERED),
            (decision is not None and not decision.is_approval, LogDirState.REJECTED),
            (decision is not None and is_active and self.waits_until is not None, LogDirState.PAUSED),
            (
                decision is not None and self.progress is not None,
                LogDirState.COPYING if is_active else LogDirState.BROKEN_OFF,
            ),
            (decision is not None, LogDirState.APPROVED if is_active else LogDirState.ENDED_BEFORE_COPIES),
            (is_active and self.has_open_request, LogDirState.WAITING),
            (self.planned is None and is_active, LogDirState.PLANNING),
            (self.planned is None and self.has_succeeded, LogDirState.NOTHING_TO_MOVE),
            (self.planned is None, LogDirState.ENDED_WITHOUT_PLAN),
            (not is_active, LogDirState.ENDED_UNDECIDED),
        )
        return next((state for fits, state in states if fits), LogDirState.PLANNED)
