"""How long it takes until somebody is told that nobody watches, on a clock that is walked. The cluster is simulated.

Who follows a batch leaves a sign at every look, every 15 s at least, and dies right after one. From that last sign on
the alert, a task of the Dag that fails, has to be out within 60 s, and so within 45 s of the first sign that is
overdue. The Dag comes by its own schedule, and each of its tasks begins some seconds late.
"""

from __future__ import annotations

import dataclasses
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.timetables.trigger import CronTriggerTimetable

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.progress import PROGRESS_FILE, Progress
from kafka_rebalance.errors import UnwatchedError
from kafka_rebalance.throttle import lease_files
from kafka_rebalance.throttle.janitor import look_after_cluster
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.triggers import SLOWEST_POLL_SECONDS
from support.airflow.parsed_dags import read_dags
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import CONNECTION, open_lease
from support.runs.simulated_cluster import FEWER_TOPICS, SimulatedCluster, SimulatedRun, approved_run

BEGUN = datetime(2026, 11, 21, 4, 0, tzinfo=UTC)
LATEST_SECONDS = 10  # from a run's time until its task looks
WATCH_SECONDS = look_after_cluster.WATCH_SECONDS


class Clock:
    """Time passes where somebody sleeps or waits for the next run. The follower dies `dies_at` seconds after BEGUN."""

    def __init__(self, run: SimulatedRun, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run, self.now = run, BEGUN
        self.dies_at = float("inf")
        self.skew = timedelta(0)  # of the follower's clock
        monkeypatch.setattr(look_after_cluster, "time", SimpleNamespace(monotonic=self.seconds, sleep=self.sleep))
        monkeypatch.setattr("kafka_rebalance.clock.utc_now", lambda: self.now)
        monkeypatch.setattr(look_after_cluster, "WATCH_SECONDS", WATCH_SECONDS)

    def seconds(self) -> float:
        return (self.now - BEGUN).total_seconds()

    def sleep(self, seconds: float) -> None:
        self.wait_until(self.now + timedelta(seconds=seconds))

    def wait_until(self, then: datetime) -> None:
        self.now = max(self.now, then)
        noted = Progress(updated_at=BEGUN + self.skew + self.last_sign(), state="moving")
        PROGRESS_FILE.write(self.run.folder, noted)

    def forget_alerts(self) -> None:
        (self.run.folder.parents[2] / json_files.JANITOR / f"{CONNECTION}.json").unlink(missing_ok=True)

    def last_sign(self) -> timedelta:
        """At its death, or where it lives every 15 s."""
        lived = self.seconds() // SLOWEST_POLL_SECONDS * SLOWEST_POLL_SECONDS
        return timedelta(seconds=self.dies_at if self.seconds() >= self.dies_at else lived)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """With copies in flight since BEGUN."""
    cluster = SimulatedCluster(monkeypatch, FEWER_TOPICS)
    run = approved_run(tmp_path, cluster, monkeypatch)
    Airflow.answering(monkeypatch)
    run.hold()
    run.request()
    cluster.step()
    lease = open_lease("simulated-cluster-0001")
    assert lease is not None
    lease_files.write(airflow_deployment(), dataclasses.replace(lease, taken_at=BEGUN.isoformat()))
    batches = json_files.read_json(run.folder, json_files.BATCHES)["batches"]
    dated = [{**batch, "created_at": BEGUN.isoformat()} for batch in batches]
    json_files.write_json(run.folder, json_files.BATCHES, {"batches": dated})
    return Clock(run, monkeypatch)


@pytest.fixture(scope="module")
def schedule() -> CronTriggerTimetable:
    """The parsed Dag's own."""
    dag: Any = read_dags()["kafka_throttle_janitor"]
    return CronTriggerTimetable(dag.timetable.expression, timezone="UTC")


def alerted_after(clock: Clock, schedule: CronTriggerTimetable, rng: random.Random, minutes: int) -> float | None:
    """Seconds from BEGUN until a run of the janitor failed; None where none did in so many minutes."""
    due = BEGUN - timedelta(seconds=1)
    for _ in range(minutes):
        due = schedule._get_next(pendulum.instance(due))
        clock.wait_until(due + timedelta(seconds=rng.uniform(0, LATEST_SECONDS)))
        try:
            tend()
        except UnwatchedError:
            return clock.seconds()
    return None


def test_that_nobody_watches_is_told_within_a_minute_whenever_the_watcher_dies(
    clock: Clock, schedule: CronTriggerTimetable
) -> None:
    rng = random.Random(20_261_121)
    for second in range(0, 60, 6):
        clock.now, clock.dies_at = BEGUN, 120.0 + second
        clock.forget_alerts()
        told = alerted_after(clock, schedule, rng, minutes=6)
        assert told is not None
        assert told >= clock.dies_at + SLOWEST_POLL_SECONDS, "a look that is late is not a watcher that is gone"
        assert told - clock.dies_at <= 60, f"second {second}"


@pytest.mark.parametrize("days", [-1, 1])
def test_a_followers_clock_that_is_a_day_off_hides_no_silence_and_makes_none(
    clock: Clock, schedule: CronTriggerTimetable, days: int
) -> None:
    clock.skew = timedelta(days=days)
    clock.dies_at = 400.0
    told = alerted_after(clock, schedule, random.Random(0), minutes=12)
    assert told is not None
    assert clock.dies_at + SLOWEST_POLL_SECONDS <= told <= clock.dies_at + 90


def test_a_watcher_that_lives_is_never_said_to_be_gone(clock: Clock, schedule: CronTriggerTimetable) -> None:
    assert alerted_after(clock, schedule, random.Random(0), minutes=10) is None
