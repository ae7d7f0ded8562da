"""A worker that stands still at a write of its throttle while its run gives the throttle back, on real brokers.

No write without ZooKeeper depends on the fence, so this one takes effect late. It is put back all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.admin import wire
from kafka_rebalance.cluster import with_admin_api
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.cluster_writes import Kind
from support.kafka.on_versions import without_zookeeper
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import InProcessRun
from support.runs.watched_cluster import WatchedCluster

MEGABYTE = 1_000_000


class Killed(BaseException):
    """kill -9: nothing more of this process happens."""


cluster = without_zookeeper(brokers=3)


@pytest.fixture
def run(
    tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, fresh_topic_name: Callable[[], str]
) -> InProcessRun:
    """Approved, about to take its throttle."""
    name = fresh_topic_name()
    cluster.create_topic(name, {0: (1, 2)})
    cluster.produce(name, {0: MEGABYTE})
    made = InProcessRun(tmp_path, cluster, monkeypatch)
    made.plan_lists(name, {0: (1, 3)})
    made.approve("given", MEGABYTE)
    Airflow.answering(monkeypatch)
    return made


def stand_still(monkeypatch: pytest.MonkeyPatch, number: int, others: Callable[[], object], *, killed: bool) -> None:
    """At the config write of this number, after its fence was checked. The request then takes effect."""
    real, seen = wire.Wire.write, 0

    def write(self: wire.Wire, request: Any, what: str, kind: Kind, *arguments: Any, **options: Any) -> Any:
        nonlocal seen
        seen += kind is Kind.CONFIG
        if kind is not Kind.CONFIG or seen != number:
            return real(self, request, what, kind, *arguments, **options)
        others()
        answer = real(self, request, what, kind, *arguments, **{**options, "not_later_than": None})
        if killed:
            raise Killed
        return answer

    monkeypatch.setattr(wire.Wire, "write", write)


@pytest.mark.parametrize("killed", [False, True], ids=["goes on", "killed"])
@pytest.mark.parametrize("number", [1, 3, 4])
def test_a_setup_that_stood_still_while_its_run_gave_back_leaves_no_throttle(
    run: InProcessRun, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, number: int, killed: bool
) -> None:
    kafka = WatchedCluster(cluster)
    stand_still(monkeypatch, number, run.release, killed=killed)
    with pytest.raises((Exception, Killed)) as ended:
        run.hold()
    lost = re.search("[Aa]nother worker (has taken the cluster|gave back)", str(ended.value))
    assert ended.type is Killed if killed else lost is not None
    assert bool(kafka.throttles()) == killed
    assert run_lease(run)["released_at"] is not None
    report = tend()
    assert kafka.leftovers() == []
    assert any("stood still" in line for line in report["warnings"]) == killed


def test_a_config_write_that_comes_too_late_is_not_sent(run: InProcessRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker stands still longer than a request may take from the check of the fence."""
    with monkeypatch.context() as slow:
        slow.setattr(with_admin_api, "SEND_SECONDS", -1.0)
        with pytest.raises(Exception, match="stood still before it sent the change of the throttle of"):
            run.hold()
    run.release()


def test_after_the_last_look_nothing_more_is_expected(run: InProcessRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(with_admin_api, "LATE_SECONDS", 0.5)
    run.hold()
    run.release()
    lease = run_lease(run)
    assert lease["late_until"] is not None
    assert lease["prior"]
    while run_lease(run)["late_until"] is not None:
        tend()


def run_lease(run: InProcessRun) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.folder / "throttle.json").read_text())
    return found
