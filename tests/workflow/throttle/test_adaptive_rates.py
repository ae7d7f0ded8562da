"""A run with a range of rates on a simulated cluster: how its brokers' rates change, and that none of them stays."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.documents.progress import PROGRESS_FILE
from kafka_rebalance.documents.rate_steps import RATE_STEPS_FILE, RateSteps, Sign
from kafka_rebalance.errors import ReadError, ThrottleError, UnwatchedError
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from kafka_rebalance.throttle import adapt_rates
from kafka_rebalance.throttle.adaptive_rate import rate_ladder
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.workflow import triggers
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.triggers import PauseTrigger
from support.runs import rebalance_run
from support.runs.cancel_run import CancelRun, cancellable_cluster
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import open_lease
from support.runs.simulated_cluster import RATE, SimulatedCluster, SimulatedRun, freeze, lease_file

LADDER = rate_ladder(1_000_000, 8_000_000)
LOWEST, TOP = LADDER[0], LADDER[-1]
IDLE = "/brokers/topics/idle/partitions/0/state"  # of no move


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    """It empties broker 2, a partition a batch, and is approved with a range."""
    monkeypatch.setattr(adapt_rates, "LOOK_SECONDS", 0.0)
    cluster.committed = {}
    made = SimulatedRun(tmp_path, cluster, monkeypatch)
    made.policy_file.write_text(rebalance_run.POLICY + "partitions_per_batch: 1\n")
    made.plan(job="drain", drain=[2], topics_out=["idle"], throttle_from_bytes_per_second=LOWEST)
    made.approve("light", TOP, LOWEST)
    return made


def rates(cluster: SimulatedCluster) -> set[int]:
    found = {value for values in cluster.throttles().values() for value in values.values() if value.isdecimal()}
    return set(map(int, found))


def steps(run: SimulatedRun) -> RateSteps:
    return RATE_STEPS_FILE.read(run.folder)


def look(run: SimulatedRun, batch: int) -> BatchSeen | None:
    """One look of a trigger."""
    return run.follow(batch, until=lambda: True)[0]


def climb(run: SimulatedRun, batch: int, looks: int) -> None:
    for _ in range(looks):
        seen = look(run, batch)
        assert seen is not None
        assert seen.state == BatchState.RATES
        assert run.resume(seen.to_event()) == batch


def shrink(cluster: SimulatedCluster, isr: list[int]) -> None:
    cluster.fake.put_json(IDLE, {**cluster.fake.json(IDLE), "isr": isr})


def test_rates_begin_low_rise_in_steps_and_are_gone_afterwards(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert rates(cluster) == {LOWEST}
    assert open_lease("simulated-cluster-0001").ladder == LADDER  # type: ignore[union-attr]
    assert run.request() == 1
    assert rates(cluster) == {LOWEST}, "nothing was copied yet, so no look shows what copies cost"
    seen = []
    for _ in range(len(LADDER) - 1):
        climb(run, 1, 1)
        seen.append(max(rates(cluster)))
    assert seen == list(LADDER[1:])
    assert look(run, 1) is None, "it is at the top"
    assert {step.reasons[0].sign for step in steps(run).steps} == {Sign.CALM}
    run.reassign()
    run.finish()
    assert cluster.leftovers() == []


def test_an_incident_anywhere_brings_the_lowest_rate_and_new_moves_wait(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    assert run.request() == 1
    climb(run, 1, 3)
    shrink(cluster, [1])
    seen = look(run, 1)
    assert seen is not None
    assert seen.state == BatchState.RATES
    assert run.resume(seen.to_event()) == 1
    assert rates(cluster) == {LOWEST}
    assert {step.reasons[0].sign for step in steps(run).steps[-1:]} == {Sign.AT_MIN_ISR}
    event, _ = run.follow(1, until=lambda: not (cluster.step() or True))
    assert event is not None
    assert event.state == BatchState.DONE
    assert run.resume(event.to_event()) is None
    assert run.deferred is not None
    trigger = run.deferred.trigger
    assert isinstance(trigger, PauseTrigger)
    assert trigger.pause == {"brokers": [], "in_sync": [["idle", 0, 2]]}
    assert len(cluster.requests) == 1
    shrink(cluster, [1, 3])
    run.reassign()
    run.finish()
    assert cluster.leftovers() == []


def test_a_rate_that_a_person_sets_ends_the_changes(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert run.request() == 1
    climb(run, 1, 2)
    change_rate(airflow_deployment(), run.folder, 3_000_000, by="uma")
    assert rates(cluster) == {3_000_000}
    assert look(run, 1) is None
    assert run.resume(BatchSeen(BatchState.RATES, 1)) == 1
    assert rates(cluster) == {3_000_000}
    run.reassign()
    run.finish()
    assert cluster.leftovers() == []


def test_a_rate_that_a_person_sets_at_the_same_moment_stays(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    assert run.request() == 1
    seen = look(run, 1)
    assert seen is not None
    others = lambda: change_rate(airflow_deployment(), run.folder, 3_000_000, by="uma")  # noqa: E731
    freeze(monkeypatch, adapt_rates, "choose", others)
    assert run.resume(seen.to_event()) == 1
    assert rates(cluster) == {3_000_000}


def test_somebody_elses_rate_stays_as_it_is(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert run.request() == 1
    key = "follower.replication.throttled.rate"
    cluster.fake.put_json("/config/brokers/1", {"version": 1, "config": {key: "777"}})
    seen = look(run, 1)
    assert seen is not None
    run.resume(seen.to_event())
    assert cluster.config("brokers/1")[key] == "777"


@pytest.mark.parametrize("what", ["groups", "brokers"])
def test_what_cannot_be_read_raises_no_rate_and_stops_no_move(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    run.hold()
    if what == "groups":
        cluster.committed = None
    else:
        monkeypatch.setattr("kafka_rebalance.admin.out_of_sync.read_out_of_sync", _not_read)
    assert run.request() == 1
    assert look(run, 1) is None
    assert rates(cluster) == {LOWEST}
    assert steps(run).held_by[0].sign == (Sign.UNREAD if what == "groups" else Sign.ISR_UNREAD)
    run.reassign()
    run.finish()
    assert cluster.leftovers() == []


def _not_read(_: object) -> Any:
    raise ReadError("No broker answers.")


def test_a_worker_that_stays_raises_the_rates_without_a_trigger(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    stands_for = SimpleNamespace(time=time.time, monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr("kafka_rebalance.rebalance.follow.time", stands_for)
    run.hold()
    run.stay_seconds = 60
    assert run.request() == 1, "it gives the batch to a trigger after a minute"
    assert TOP in rates(cluster)
    assert sum(slept) <= 61


def test_a_trigger_fires_when_a_rate_is_to_change(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triggers, "YOUNGEST_EVENT_SECONDS", 0.0)
    run.hold()
    assert run.request() == 1
    assert run.deferred is not None
    _, arguments = run.deferred.trigger.serialize()

    async def fire() -> Any:
        (payload,) = [event.payload async for event in triggers.BatchTrigger(**arguments).run()]
        return payload

    event = asyncio.run(fire())
    assert event == {"state": "rates", "batch": 1, "message": ""}
    assert rates(cluster) == {LOWEST}, "it writes nothing"
    assert run.resume(event) == 1
    assert max(rates(cluster)) == LADDER[1]


# --- killed, lost, handed over ---


def apart(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    """The first batch is in flight, and its brokers have different rates of the ladder."""
    run.hold()
    assert run.request() == 1
    climb(run, 1, 2)
    cluster.answers = {1: 0.5}
    seen = look(run, 1)
    assert seen is not None
    run.resume(seen.to_event())
    assert len(rates(cluster)) > 1


def test_the_janitor_puts_back_rates_that_differ_by_broker(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    apart(run, cluster)
    assert tend()["alerts"] == [], "none of these rates is somebody else's"
    assert PROGRESS_FILE.read(run.folder).open == {}
    del airflow.states["one"]
    with pytest.raises(UnwatchedError, match="under its throttle of 1000000 to 8000000 bytes/s"):
        tend()
    assert rates(cluster), "copies are in flight"
    while cluster.step():
        pass
    tend()
    assert cluster.throttles() == {}


def test_a_worker_that_dies_before_it_has_set_the_first_rate_leaves_nothing(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("kafka_rebalance.cluster.with_zookeeper.ZooKeeperCluster.merge_configs", die)
        patch.setattr("kafka_rebalance.throttle.hold_throttle._undo", die)
        with pytest.raises(Killed):
            run.hold()
    assert open_lease("simulated-cluster-0001") is not None
    run.hold()
    assert rates(cluster) == {LOWEST}
    run.release()
    assert cluster.leftovers() == []


def test_a_worker_that_dies_between_two_brokers_is_followed_by_one_that_goes_on(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    apart(run, cluster)
    run.hold()
    assert rates(cluster) == {LOWEST}, "a throttle that is held anew begins anew"
    cluster.answers = {}
    run.reassign()
    run.finish()
    assert cluster.leftovers() == []


def test_a_cleared_release_puts_back_every_rate(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    apart(run, cluster)
    while cluster.step():
        pass
    run.release()
    assert cluster.leftovers() == []


def test_a_run_whose_lease_is_lost_finds_any_rate_of_its_ladder(
    run: SimulatedRun, cluster: SimulatedCluster, tmp_path: Path
) -> None:
    apart(run, cluster)
    while cluster.step():
        pass
    for file in lease_file(tmp_path / "runs").parent.glob("*.json"):
        file.unlink()
    cluster.fake.delete("/kafka_rebalance/lease")
    with pytest.raises(ThrottleError, match=r"brokers/1: leader.replication.throttled.rate = 1000000.*= 2828427"):
        run.release()


def test_a_throttle_that_was_suspended_is_set_again_at_the_lowest_rate(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    from kafka_rebalance.throttle.suspend_throttle import suspend

    apart(run, cluster)
    cluster.answers = {}
    while cluster.step():
        pass
    kept: ClusterLease = cluster.lease()
    lease = kept.read_open()
    assert lease is not None
    assert suspend(kept, lease)
    assert cluster.throttles() == {}
    run.reassign()
    run.finish()
    assert cluster.leftovers() == []


def test_a_run_with_one_rate_looks_at_nothing_more(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_rebalance.admin.out_of_sync.read_out_of_sync", _not_read)
    made = SimulatedRun(tmp_path, cluster, monkeypatch)
    made.plan(job="drain", drain=[2], topics_out=["idle"])
    made.approve("light", RATE)
    made.hold()
    made.reassign()
    made.finish()
    assert not RATE_STEPS_FILE.read_if_there(made.folder)
    assert cluster.leftovers() == []


def test_while_the_cluster_is_frozen_rates_only_fall(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    assert run.request() == 1
    climb(run, 1, 2)
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE", "true")
    before = rates(cluster)
    assert run.resume(BatchSeen(BatchState.RATES, 1)) == 1
    assert rates(cluster) == before
    assert look(run, 1) is None, "nobody is woken for nothing"
    shrink(cluster, [1])
    seen = look(run, 1)
    assert seen is not None
    assert run.resume(seen.to_event()) == 1
    assert rates(cluster) == {LOWEST}


def test_a_run_that_has_handed_its_copies_over_changes_no_rate(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    apart(run, cluster)
    before = cluster.throttles()
    with pytest.raises(ThrottleError, match="Copies are still in flight"):
        run.release()
    assert look(run, 1) is None
    assert run.resume(BatchSeen(BatchState.RATES, 1)) == 1
    kept = {entity: values for entity, values in cluster.throttles().items() if entity.startswith("brokers/")}
    assert kept.items() <= before.items()


def test_a_cancel_takes_back_every_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapt_rates, "LOOK_SECONDS", 0.0)
    cluster = cancellable_cluster(monkeypatch, "2.8")
    cluster.committed = {}
    made = SimulatedRun(tmp_path, cluster, monkeypatch)
    made.policy_file.write_text(rebalance_run.POLICY + "partitions_per_batch: 1\n")
    made.plan(job="drain", drain=[2], topics_out=["idle"], throttle_from_bytes_per_second=LOWEST)
    made.approve("light", TOP, LOWEST)
    apart(made, cluster)
    canceller = CancelRun(monkeypatch)
    canceller.approved()
    canceller.cancel()
    made.release()
    assert cluster.leftovers() == []
