"""A worker has announced its request and stands still while others stop its run, on real brokers.

What it announced does not begin behind their backs, and is never copied without its throttle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.cluster import with_admin_api
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.moves import announcement_age
from support.kafka.on_versions import without_zookeeper
from support.runs.cancel_run import CancelRun
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import InProcessRun
from support.runs.watched_cluster import WatchedCluster

MEGABYTE = 1_000_000
LISTS = {0: (2, 1), 1: (1, 2)}


cluster = without_zookeeper(brokers=3)


@pytest.fixture
def topic(cluster: LocalCluster, fresh_topic_name: Callable[[], str]) -> str:
    name = fresh_topic_name()
    cluster.create_topic(name, LISTS)
    cluster.produce(name, dict.fromkeys(LISTS, 10 * MEGABYTE))
    return name


@pytest.fixture
def run(tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, topic: str) -> InProcessRun:
    """It holds its throttle, and is about to request its moves."""
    made = InProcessRun(tmp_path, cluster, monkeypatch, topic)
    made.plan_lists(topic, {0: (3, 1), 1: (3, 2)})
    made.approve("given", MEGABYTE)
    made.hold()
    return made


class StandingWorker:
    """`reassign`, which stands still once its request is announced, until `goes_on`."""

    def __init__(self, run: InProcessRun, monkeypatch: pytest.MonkeyPatch) -> None:
        self._announced, self._may_go = threading.Event(), threading.Event()
        self._outcome: list[Any] = []
        real = with_admin_api.reassignments.request_moves

        def stand_still(*arguments: Any, **options: Any) -> Any:
            self._announced.set()
            assert self._may_go.wait(120)
            return real(*arguments, **options)

        def work() -> None:
            try:
                self._outcome.append(run.request())
            except BaseException as failed:
                self._outcome.append(failed)

        monkeypatch.setattr(with_admin_api.reassignments, "request_moves", stand_still)
        self._thread = threading.Thread(target=work)
        self._thread.start()
        assert self._announced.wait(120)
        monkeypatch.setattr(with_admin_api.reassignments, "request_moves", real)

    def goes_on(self) -> Any:
        self._may_go.set()
        self._thread.join()
        return self._outcome[0]


def beside(worker: StandingWorker, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> tuple[object, Any]:
    """What `act` gives, and what the worker says that sends its request while `act` waits for it."""
    told: list[object] = []
    sent = threading.Event()
    real = announcement_age.may_still_come

    def look(age: float) -> bool:
        if not sent.is_set():
            sent.set()
            told.append(worker.goes_on())
        return real(age)

    monkeypatch.setattr("kafka_rebalance.cluster.announced_requests.may_still_come", look)
    result = act()
    assert sent.is_set(), "it waited for nobody"
    return result, told[0]


def test_a_cancel_waits_for_what_its_run_has_announced_and_takes_it_back(
    run: InProcessRun, cluster: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = WatchedCluster(cluster)
    canceller = CancelRun(monkeypatch, f"cancel {topic}")
    canceller.request("cancel_now")
    canceller.answer(consent=canceller.document["consent"])
    worker = StandingWorker(run, monkeypatch)
    _, said = beside(worker, canceller.cancel, monkeypatch)
    assert "at the same moment" in str(said)
    assert kafka.moving() == []
    with pytest.raises(Exception, match=r"No further batch was requested|taken back"):
        run.request()
    run.release()
    assert canceller.verify()["ends"]["in place"] == []
    assert {number: sorted(held) for number, held in kafka.lists(topic).items()} == {0: [1, 2], 1: [1, 2]}
    assert kafka.leftovers() == []


def test_a_release_keeps_the_throttle_until_nothing_announced_can_come(
    run: InProcessRun, cluster: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = WatchedCluster(cluster)
    worker = StandingWorker(run, monkeypatch)
    _, said = beside(worker, run.release, monkeypatch)
    assert "at the same moment" in str(said)
    assert kafka.leftovers() == []
    assert {number: sorted(held) for number, held in kafka.lists(topic).items()} == {0: [1, 2], 1: [1, 2]}


def test_the_janitor_puts_back_nothing_under_a_request_that_may_still_come(
    run: InProcessRun, cluster: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow knows nothing of the run any more, and its worker still stands there."""
    Airflow.answering(monkeypatch)
    kafka = WatchedCluster(cluster)
    worker = StandingWorker(run, monkeypatch)
    _, said = beside(worker, tend, monkeypatch)
    assert "at the same moment" in str(said)
    tend()
    assert kafka.leftovers() == []
    assert {number: sorted(held) for number, held in kafka.lists(topic).items()} == {0: [1, 2], 1: [1, 2]}


def test_a_worker_that_died_while_it_asked_is_waited_for_by_the_clock_of_the_cluster(
    run: InProcessRun, cluster: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(with_admin_api.reassignments, "request_moves", die)
        with pytest.raises(KeyboardInterrupt):
            run.request()
    monkeypatch.setattr(announcement_age, "COME_SECONDS", 3.0)
    run.release()
    assert WatchedCluster(cluster).leftovers() == []
