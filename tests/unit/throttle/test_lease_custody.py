"""What the janitor does with a lease whose run may be gone, and whom it alerts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.model.lock_owner import AirflowState
from kafka_rebalance.throttle.janitor.rules import IDLE_SECONDS, UNWATCHED_SECONDS, custody
from kafka_rebalance.throttle.put_back import take_lease
from support.kafka.small_clusters import DIGEST, move, tp

MOVES = [move("t-0", [1, 2], [2, 3]), move("t-1", [2, 1], [2, 3])]


def lease(**others: Any) -> ThrottleLease:
    return replace(take_lease("dag/one", DIGEST, MOVES, 5, {}, owner="here"), **others)


COPYING = frozenset({tp("t-0")})
LATE, IDLE = UNWATCHED_SECONDS + 1, IDLE_SECONDS + 1


@pytest.mark.parametrize(
    ("standing", "handed_over", "copying", "silent", "put_back", "release_lock", "alert"),
    [
        (AirflowState.RUNNING, False, (), 0, False, False, False),
        (
            AirflowState.RUNNING,
            False,
            (),
            IDLE,
            False,
            False,
            False,
        ),  # queued behind other tasks, for as long as it takes
        (AirflowState.RUNNING, False, COPYING, 1, False, False, False),
        (AirflowState.RUNNING, False, COPYING, LATE, False, False, True),  # worker or triggerer is gone
        (AirflowState.RUNNING, True, COPYING, 1, True, False, True),
        (AirflowState.RUNNING, True, (), 1, True, False, False),  # its release is repeated, and gives the lock back
        (AirflowState.PAUSED, False, COPYING, 1, False, False, False),
        (AirflowState.PAUSED, False, COPYING, LATE, False, False, True),
        (AirflowState.PAUSED, False, (), LATE, False, False, False),
        (AirflowState.PAUSED, False, (), IDLE, True, False, False),
        (AirflowState.UNKNOWN, False, COPYING, 1, False, False, False),
        (AirflowState.UNKNOWN, False, COPYING, LATE, False, False, True),
        (AirflowState.UNKNOWN, False, (), LATE, False, False, False),
        (AirflowState.UNKNOWN, False, (), IDLE, True, False, False),
        (AirflowState.OVER, False, COPYING, 1, True, False, True),
        (AirflowState.OVER, False, (), 1, True, True, False),
        (AirflowState.GONE, False, COPYING, 1, True, False, True),
        (AirflowState.GONE, False, (), 1, True, True, False),
        (AirflowState.GONE, True, (), 1, True, True, False),
    ],
)
def test_what_becomes_of_a_lease(
    standing: Any, handed_over: bool, copying: Any, silent: Any, put_back: bool, release_lock: bool, alert: bool
) -> None:
    held = lease(handed_over_at="2026-11-21T00:00:00+00:00" if handed_over else None)
    decided = custody(held, standing, copying, silent)
    assert (decided.put_back, decided.release_lock, decided.alert is not None) == (put_back, release_lock, alert)
    assert "run dag/one of here" in decided.state
    assert not (decided.release_lock and copying), "the lock of a run whose copies go on"


def test_an_alert_says_how_many_copies_go_on_at_which_rate() -> None:
    alert = custody(lease(), AirflowState.GONE, COPYING, 0).alert
    assert alert is not None
    assert "1 partitions copy under its throttle of 5 bytes/s" in alert
