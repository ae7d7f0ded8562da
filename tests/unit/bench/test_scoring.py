"""The planner's judge: small clusters whose figures can be reckoned by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.scoring import (
    Cluster,
    Moves,
    makespan_ratio,
    moved,
    reachable,
    read_cluster,
    read_moves,
    score,
    simple_bound,
)
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import run
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from support.plans.small_snapshots import Rows, broker_rows, partition_rows

RACKS = {1: "a", 2: "b", 3: "c", 4: "a"}


def written(folder: Path, partitions: Rows, racks: dict[int, str], drained: Sequence[int] = ()) -> Cluster:
    ids = list(racks)
    state = {broker: "drain" if broker in drained else "keep" for broker in ids}
    same = {
        column: dict.fromkeys(ids, value)
        for column, value in (
            ("disk_capacity_bytes", 10_000),
            ("nic_in_bytes_per_second", 1e6),
            ("nic_out_bytes_per_second", 1e6),
        )
    }
    folder.mkdir(exist_ok=True)
    write_snapshot(folder, broker_rows(ids, racks, state=state, **same), partitions)
    return read_cluster(folder)


def rows(lists: Sequence[Sequence[int]], size: int = 100) -> Rows:
    ones = [1.0] * len(lists)
    return partition_rows(lists, size=size, bytes_in_per_second=ones, bytes_out_per_second=ones)


def moves(*given: tuple[int, Sequence[int], Sequence[int], int]) -> Moves:
    """(partition, before, after, batch) of the topic "orders"."""
    return Moves(
        [("orders", one[0]) for one in given],
        [one[1] for one in given],
        [one[2] for one in given],
        [one[3] for one in given],
    )


def test_loads_are_told_against_the_share_of_each_broker(tmp_path: Path) -> None:
    cluster = written(tmp_path, rows([[1, 2], [1, 3], [2, 1], [1, 2]]), {1: "a", 2: "b", 3: "c"})
    found = score(cluster, cluster.replicas).spreads
    assert (found["replicas"].most, found["replicas"].least) == pytest.approx((4 / (8 / 3), 1 / (8 / 3)))
    assert found["disk"].most == pytest.approx(found["replicas"].most)
    assert (found["leaders"].most, found["leaders"].least) == pytest.approx((3 / (4 / 3), 0))
    # Each leader sends its one byte to one follower and to consumers.
    assert found["leader_bytes_out"].most == pytest.approx(found["leaders"].most)
    assert found["leaders"].grain == pytest.approx(1 / (4 / 3))


def test_a_rack_that_every_partition_needs_may_have_a_larger_share(tmp_path: Path) -> None:
    cluster = written(tmp_path, rows([[1, 2, 3], [4, 2, 3]]), RACKS)
    assert reachable(cluster, "replicas") == pytest.approx([1, 2, 2, 1])
    assert reachable(cluster, "disk") == pytest.approx([100, 200, 200, 100])
    assert reachable(cluster, "leaders") == pytest.approx([0.5] * 4)
    spread = score(cluster, cluster.replicas).spreads["replicas"]
    assert (spread.most, spread.least) == pytest.approx((1, 1))


def test_what_must_not_be_is_counted(tmp_path: Path) -> None:
    cluster = written(tmp_path, rows([[1, 2], [2, 3], [3, 1], [3, 4]]), RACKS, drained=[4])
    before = score(cluster, cluster.replicas)
    assert (before.rack_violations, before.invalid_lists, before.left_on_drained, before.violations) == (0, 0, 1, 1)
    wrong = moved(cluster, moves((0, [1, 2], [1, 4], 1), (1, [2, 3], [2, 2], 1), (2, [3, 1], [3, 1, 2], 1)))
    after = score(cluster, wrong)
    assert after.rack_violations == 2  # brokers 1 and 4 share a rack, and so does a broker with itself
    assert after.invalid_lists == 2  # a broker twice, and a replica more
    assert after.left_on_drained == 2


def test_crowding_is_what_lies_beyond_the_topic_s_even_share_and_one_more(tmp_path: Path) -> None:
    lists = [[1, 2], [1, 2], [1, 2], [1, 2]]
    cluster = written(tmp_path, rows(lists), RACKS)
    # 8 replicas on 4 brokers: 2 each and one more are no crowd, so brokers 1 and 2 have one too many.
    assert score(cluster, cluster.replicas).crowding == pytest.approx(2 / 8)


def test_excess_leaders_are_beyond_the_even_share_of_partitions_that_several_may_lead(tmp_path: Path) -> None:
    lists = [[1, 2], [1, 2], [1, 2], [1, 2], [2, 3], [4]]
    cluster = written(tmp_path, rows(lists), RACKS)
    # 5 leaders on 4 brokers: 2 each are even. The partition with one replica does not count.
    assert score(cluster, cluster.replicas).excess_leaders == 2


def test_the_bound_is_what_leaves_or_what_comes(tmp_path: Path) -> None:
    lists = [[1], [1], [2], [2], [3], [3]]
    full = written(tmp_path, rows(lists), dict.fromkeys((1, 2, 3, 4), "a"))
    assert simple_bound(full, 0.1) == 135  # broker 4 gets 0.9 of 150; the others have to give 3 times 35
    emptied = written(tmp_path, rows(lists), dict.fromkeys((1, 2, 3, 4), "a"), drained=[1])
    assert simple_bound(emptied, 0.1) == 200


def test_batches_last_as_long_as_their_busiest_broker(tmp_path: Path) -> None:
    cluster = written(tmp_path, rows([[1], [2], [1]]), dict.fromkeys((1, 2, 3, 4), "a"))
    both = [(0, [1], [3], 1), (1, [2], [4], 1)]
    assert makespan_ratio(cluster, moves(*both)) == 1
    apart = [(0, [1], [3], 1), (1, [2], [4], 2)]
    assert makespan_ratio(cluster, moves(*apart)) == 2
    assert makespan_ratio(cluster, moves()) == 1


def test_the_planner_s_own_figures_are_those_of_the_judge(tmp_path: Path) -> None:
    lists = [[1, 2], [2, 3], [3, 1]] * 8
    cluster = written(tmp_path / "snapshot", rows(lists), RACKS)
    (plan,) = run(tmp_path / "snapshot", tmp_path / "out", Settings(candidates=("balanced",)))
    found = score(cluster, moved(cluster, read_moves(tmp_path / "out", "balanced")))
    assert found.moved_bytes == plan.candidate.summary["moved_bytes"] > 0
    assert found.leader_changes == plan.candidate.summary["leader_changes"]
    assert found.violations == 0
    for metric, spread in found.spreads.items():
        assert spread.cv == pytest.approx(plan.scores_after[metric].cv, abs=1e-6)
