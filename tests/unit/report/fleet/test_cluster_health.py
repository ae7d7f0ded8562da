"""How a cluster is, in a few words and a colour."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kafka_rebalance.report.fleet.cluster_health import Cluster, Janitor, Link, NightlyCheck, OpenRequest, Run
from kafka_rebalance.report.run_state import RunState, Tone

NOW = datetime(2026, 5, 3, 15, 0, tzinfo=UTC)
LINK = Link("Report", "/report")
CHECK = NightlyCheck(NOW, "even", False, 0, 0, (), "broker 1")


def cluster(state: RunState, approvals: tuple[OpenRequest, ...] = ()) -> Cluster:
    """Well but for its last run."""
    runs = (Run(NOW, state, "running", LINK),)
    return Cluster("prod", NOW, check=CHECK, runs=runs, approvals=approvals, janitor=Janitor(NOW))


@pytest.mark.parametrize("state", RunState)
def test_a_cluster_is_as_its_last_run_is(state: RunState) -> None:
    tone = state.tone if state.tone in (Tone.BAD, Tone.ATTENTION) else Tone.GOOD
    assert cluster(state).tone is tone
    assert (state.word in cluster(state).health.lower()) == (tone is not Tone.GOOD)


def test_a_run_that_waits_is_named_once() -> None:
    asked = cluster(RunState.WAITING, (OpenRequest("Approve?", NOW, (), LINK),))
    assert asked.health == "Waits for approval"
