"""What a person may press now: where each button leads in Airflow, and what to do there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_rebalance.pages.run_state import Action, RunState

_BUTTONS = {  # words on the button, and what to do on the page that it opens
    Action.ANSWER: ("Approve or reject", ""),
    Action.STOP: ("Stop, cancel or throttle", ""),  # one button for all that the Dag can do to a run that goes on
    Action.FIND_CAUSE: ("See which task failed", "its log says why"),
    Action.ASK_AGAIN: ("Ask again", "clear the task approve"),
    Action.GO_ON: ("Go on with the plan", "clear hold_throttle and all tasks after it"),
    Action.VERIFY_AGAIN: ("Verify again", "clear the task; its log says why"),
    Action.ROLL_BACK: ("Move the replicas back", "trigger it with the action roll_back"),
    Action.CANCEL: ("Cancel the copies", "trigger it with the action cancel_now"),
    Action.START_ANEW: ("Plan again", "trigger a new run"),
}

_UNDOES = frozenset({Action.STOP, Action.CANCEL, Action.SET_THROTTLE, Action.ROLL_BACK})


@dataclass(frozen=True, slots=True)
class NextStep:
    """A button. `how` says what to do on the page at `url`; empty if that page says it.

    `is_expected`: the run needs it to come to its end. What stops or undoes a run is only possible.
    """

    words: str
    how: str
    url: str
    is_expected: bool


def next_steps(state: RunState, pages: Mapping[Action, str]) -> tuple[NextStep, ...]:
    """The steps that the state allows and that have a page in Airflow, the most likely one first."""
    allowed = {Action.STOP} if Action.STOP in state.actions else set(state.actions)
    return tuple(
        NextStep(*words, pages[action], action not in _UNDOES)
        for action, words in _BUTTONS.items()
        if action in allowed and action in pages
    )
