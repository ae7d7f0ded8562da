"""A range of rates on real brokers: it begins low, rises while nothing shows, and falls when another broker dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_rebalance.admin import out_of_sync
from kafka_rebalance.documents.rate_steps import RATE_STEPS_FILE, Sign
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from kafka_rebalance.throttle import adapt_rates
from kafka_rebalance.throttle.adaptive_rate import rate_ladder
from kafka_rebalance.workflow.triggers import PauseTrigger
from support.kafka.on_versions import NEWEST
from support.runs.rebalance_run import CONNECTION, POLICY, InProcessRun
from support.runs.watched_cluster import WatchedCluster
from support.waiting import wait

LADDER = rate_ladder(250_000, 4_000_000)
LOWEST = LADDER[0]
SIZE = 2_500_000  # bytes of a partition: ten seconds at the lowest rate
LARGE = 4 * SIZE  # longer than a quorum takes to notice that a broker has died
DEAD = 5


@pytest.fixture
def run(tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> InProcessRun:
    monkeypatch.setattr(adapt_rates, "LOOK_SECONDS", 1.0)
    made = InProcessRun(tmp_path, cluster, monkeypatch)
    (tmp_path / "policies" / f"{CONNECTION}.yaml").write_text(
        POLICY + "partitions_per_batch: 1\nmin_throttle_bytes_per_second: 1000\n"
    )
    return made


def approved(run: InProcessRun, cluster: LocalCluster, topic: str, size: int = SIZE) -> None:
    """Two batches of one partition, from broker 1 to broker 3."""
    cluster.create_topic(topic, {0: (1, 2), 1: (1, 2)})
    cluster.produce(topic, {0: size, 1: size})
    run.plan_lists(topic, {0: (3, 2), 1: (3, 2)}, topics_in=[topic], throttle_from_bytes_per_second=LOWEST)
    run.approve("given", LADDER[-1], LOWEST)


def rates(kafka: WatchedCluster) -> set[int]:
    found = {value for values in kafka.throttles().values() for key, value in values.items() if key.endswith("rate")}
    return set(map(int, found))


def until_rates(run: InProcessRun, reached: Callable[[], bool]) -> None:
    """Follows the first batch and changes its rates until that holds. The batch must not end before."""
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        seen, said = run.follow(1)
        assert seen is not None
        assert seen.state == BatchState.RATES, said
        assert run.resume(seen) == 1


@NEWEST
def test_rates_begin_low_rise_while_it_is_calm_and_are_gone_afterwards(
    run: InProcessRun, cluster: LocalCluster, kafka: WatchedCluster, fresh_topic_name: Callable[[], str]
) -> None:
    approved(run, cluster, fresh_topic_name())
    run.hold()
    assert rates(kafka) == {LOWEST}
    assert run.request() == 1
    assert rates(kafka) == {LOWEST}, "before the first copy"
    until_rates(run, lambda: min(rates(kafka)) >= LADDER[2])
    run.reassign()
    assert run.finish()["passed"]
    signs = {reason.sign for step in RATE_STEPS_FILE.read(run.folder).steps for reason in step.reasons}
    assert Sign.CALM in signs


@pytest.mark.long
class TestIncident:
    @pytest.fixture(scope="class", params=["3.9.2", pytest.param("4.4.0", id="4.4.0-kraft")])
    def cluster(self, request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
        controllers = int(request.param == "4.4.0")
        with LocalCluster(
            request.param, brokers=5, racks=0, kraft=bool(controllers), controllers=controllers
        ) as running:
            running.create_topic("watched", {0: (4, DEAD)}, config={"min.insync.replicas": str(1 + controllers)})
            running.produce("watched", {0: 1000})
            yield running

    def test_a_broker_that_dies_elsewhere_lowers_every_rate_and_new_moves_wait(
        self, run: InProcessRun, cluster: LocalCluster, kafka: WatchedCluster
    ) -> None:
        approved(run, cluster, "orders", LARGE)
        run.hold()
        assert run.request() == 1
        until_rates(run, lambda: min(rates(kafka)) >= LADDER[2])
        cluster.stop_broker(DEAD)
        wait("the ISR has shrunk", lambda: kafka.partitions("watched")[0].isr == (4,))
        seen, _ = run.follow(1)
        assert seen is not None
        assert seen.state == BatchState.RATES, "the next look"
        assert run.resume(seen) == 1
        assert rates(kafka) == {LOWEST}
        last = RATE_STEPS_FILE.read(run.folder).steps[-1]
        assert last.reasons[0].sign == (Sign.UNDER_MIN_ISR if cluster.kraft else Sign.AT_MIN_ISR)
        watched = TopicPartition("watched", 0)
        eligible = out_of_sync.read_eligible(kafka.connection.kafka, [watched])
        assert eligible == ({watched: 1} if cluster.kraft else {}), "KIP-966"
        assert not kafka.is_in_sync("orders", 2)
        done = follow_to_the_end(run)
        assert done.state == BatchState.DONE
        assert run.resume(done) is None
        assert run.deferred is not None
        assert isinstance(run.deferred.trigger, PauseTrigger)
        assert kafka.lists("orders")[1] == (1, 2), "the next batch waits"
        cluster.start_broker(DEAD)
        wait("it is back", lambda: kafka.is_in_sync("watched", 2))
        run.reassign()
        assert run.finish()["passed"]


def follow_to_the_end(run: InProcessRun) -> BatchSeen:
    while True:
        seen, _ = run.follow(1)
        assert seen is not None
        if seen.state != BatchState.RATES:
            return seen
        assert run.resume(seen) == 1
