"""A plan of a cluster that has hardly changed has most of the lists that were proposed last, and is no worse for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bench.clusters import SIZES, Cluster, make_cluster
from kafka_rebalance.errors import ArtifactError, PlanningError
from kafka_rebalance.model.settings import JOBS, LEADERS_ALONE, REPLACE_LOG_DIR, Settings
from kafka_rebalance.planning.candidates import Search, described, propose, searched, searches_of
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.problem.arrays import replication
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.rules.proposed_lists import lists_near
from kafka_rebalance.planning.search.frame import FoundLists, frame_of
from kafka_rebalance.planning.tables.read_problem import PARTITIONS, read_problem, write_snapshot
from support.kafka.on_versions import in_make_test
from support.plans.drawn_clusters import clusters, settings_for
from support.plans.plan_verifier import verify
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, plan_of, problem_of

NAMES = ("light", "balanced")
Lists = Mapping[tuple[str, int], Sequence[int]]


def lists_of(plan: DescribedCandidate) -> Lists:
    return {tuple(move.topic_partition): move.after for move in plan.candidate.moves if not move.is_election}


def alike(plan: DescribedCandidate, proposed: Lists) -> int:
    """How many of the plan's lists were proposed."""
    return sum(proposed.get(key) == after for key, after in lists_of(plan).items())


def with_proposed(rows: Rows, name: str, lists: Lists) -> Rows:
    return [
        {**row, f"proposed_{name}": list(after)} if (after := lists.get((row["topic"], row["partition"]))) else row
        for row in rows
    ]


def drifted(rows: Rows, seed: int) -> Rows:
    """Sizes changed at random by up to 1 %."""
    rng = np.random.default_rng(seed)
    return [{**row, "size_bytes": int(row["size_bytes"] * rng.uniform(0.99, 1.01))} for row in rows]


def drawn(scenario: str, seed: int) -> Cluster:
    """A cluster of 6 brokers and 500 partitions, whose disks hold nothing but these."""
    cluster = make_cluster(SIZES["S"], scenario, seed)
    return Cluster([{**row, "disk_used_bytes": None} for row in cluster.brokers], cluster.partitions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "job", "most"),
    [("add", "balance", 0.93), ("drain", "balance", 0.95), ("skew", "balance", 0.8), ("add", "relieve", 0.9)],
)
@pytest.mark.parametrize("name", NAMES)
def test_sizes_that_change_by_a_hundredth_leave_nearly_all_lists(
    name: str, scenario: str, job: str, most: float
) -> None:
    """A skew of so few brokers moves ten lists or thirty, so three of them count together."""
    kept = afresh = moves = 0
    for seed in (1, 2, 3) if scenario == "skew" else (1,):
        cluster = drawn(scenario, seed)
        proposed = lists_of(plan_of(cluster.brokers, cluster.partitions, name, job=job))
        rows = drifted(cluster.partitions, seed)
        fresh = plan_of(cluster.brokers, rows, name, job=job)
        rows = [{"isr": None, "leader": None, **row} for row in with_proposed(rows, name, proposed)]
        problem = problem_of(cluster.brokers, rows, job=job)
        plan = propose(problem, name)
        if (scenario, job, seed) == ("add", "balance", 1):  # one says it for all
            assert plan.candidate == propose(problem, name).candidate
        assert plan.copied_bytes <= 1.005 * fresh.copied_bytes
        assert plan.candidate.status in ("ok", fresh.candidate.status)
        verify(plan, problem.snapshot_digest, cluster.brokers, rows, Settings(job=job))
        kept, afresh, moves = kept + alike(plan, proposed), afresh + alike(fresh, proposed), moves + len(lists_of(plan))
    assert kept >= most * moves
    assert kept > afresh or scenario == "drain"  # most of its moves have one place to go


@pytest.mark.slow
def test_a_fresh_plan_is_chosen_where_the_one_near_the_last_proposal_copies_more() -> None:
    cluster = drawn("add", 1)
    fresh = plan_of(cluster.brokers, cluster.partitions)
    tight = lists_of(plan_of(cluster.brokers, cluster.partitions, tolerance=0.01))
    rows = with_proposed(cluster.partitions, "balanced", tight)
    problem = problem_of(cluster.brokers, rows)
    near = searched(problem, "balanced", Search.NEAR)
    plan = propose(problem, "balanced")
    assert plan.copied_bytes <= 1.005 * fresh.copied_bytes
    assert near.budget.bytes > 1.005 * fresh.copied_bytes  # type: ignore[union-attr]


SIX = broker_rows(range(1, 7), dict(zip(range(1, 7), "abcabc", strict=True)))


def uneven(count: int = 40) -> Rows:
    """Brokers 4 to 6 are empty."""
    return partition_rows(
        [[1, 2], [2, 3], [3, 1], [1, 3]] * (count // 4), size_bytes=[900 + number for number in range(count)]
    )


@pytest.mark.parametrize(
    ("brokers", "change", "settings"),
    [
        (SIX[:5], {}, {}),  # broker 6 is gone
        ([*SIX[:5], {**SIX[5], "state": "drain"}], {}, {}),
        (SIX, {}, {"brokers_out": [6]}),
        (SIX, {}, {"brokers_in": [4, 5]}),
        (SIX, {"excluded": True}, {}),
        (SIX, {"left_brokers": [6]}, {}),
        # The rack of broker 2, which has the other replica; this job repairs no racks.
        ([*SIX[:5], {**SIX[5], "rack": "b"}], {}, {"job": "relieve"}),
    ],
    ids=["gone", "emptied", "kept out", "not named", "excluded topic", "left lately", "rack"],
)
def test_a_list_that_may_not_be_proposed_today_is_not_proposed_again(
    brokers: Rows, change: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    rows = with_proposed(uneven(), "balanced", {("orders", 0): [6, 2], ("orders", 4): [4, 2]})
    rows[0] |= change
    problem = problem_of(brokers, rows, **settings)
    frame = frame_of(problem, goal_of(problem.settings, "balanced"), replication(problem.replicas))
    free = problem.movable[:, None] & ~problem.closed[problem.replicas]
    now = problem.replicas
    proposed = problem.earlier.proposed["balanced"]
    lists = lists_near(problem, frame.rule, frame.others, proposed, now, now, free, problem.evened)
    assert problem.brokers[lists[[0, 4]]].tolist() == [[1, 2], [4, 2]]
    plan = propose(problem, "balanced")
    verify(
        plan, problem.snapshot_digest, brokers, [{"isr": None, "leader": None, **r} for r in rows], Settings(**settings)
    )


@pytest.fixture(scope="module")
def plan_without() -> DescribedCandidate:
    """Where nothing was proposed before."""
    return plan_of(SIX, uneven())


@pytest.mark.slow
@pytest.mark.parametrize("odd", [[6, 6], [6], [6, 2, 4], [99, 2], [1, 2]], ids=str)
def test_a_list_that_no_plan_could_have_counts_for_nothing(odd: list[int], plan_without: DescribedCandidate) -> None:
    now = plan_of(SIX, with_proposed(uneven(), "balanced", {("orders", 0): odd}))
    assert [move.after for move in now.candidate.moves] == [move.after for move in plan_without.candidate.moves]


def test_leaders_keep_the_order_that_was_proposed() -> None:
    rows = partition_rows([[1, 2, 3]] * 6)
    three = broker_rows([1, 2, 3])
    order = {("orders", 1): (2, 3, 1), ("orders", 2): (2, 1, 3), ("orders", 4): (3, 2, 1), ("orders", 5): (3, 1, 2)}
    for name in ("leaders_only", "light", "balanced"):
        assert lists_of(plan_of(three, with_proposed(rows, name, order), name)) == order
        assert lists_of(plan_of(three, rows, name)) != order


def test_a_replica_that_has_fallen_behind_does_not_lead_because_it_was_to_lead() -> None:
    rows = partition_rows([[1, 2, 3]] * 6, isr=[[1, 3]] * 6)
    order = {("orders", 0): (2, 3, 1), ("orders", 1): (2, 1, 3)}
    plan = plan_of(broker_rows([1, 2, 3]), with_proposed(rows, "balanced", order))
    assert all(after[0] != 2 for after in lists_of(plan).values())


@pytest.mark.slow
def test_a_limit_holds_though_the_proposed_moves_have_become_larger() -> None:
    limit = 2_500_000_000_000
    for seed in range(1, 4):
        cluster = drawn("add", seed)
        proposed = lists_of(plan_of(cluster.brokers, cluster.partitions, max_bytes=limit))
        rows = [{**row, "size_bytes": int(row["size_bytes"] * 1.01)} for row in cluster.partitions]
        plan = plan_of(cluster.brokers, with_proposed(rows, "balanced", proposed), max_bytes=limit)
        assert plan.copied_bytes <= limit
        assert "max_bytes" in plan.note
        assert alike(plan, proposed) > 0.85 * len(lists_of(plan))


def test_moves_that_have_been_made_since_are_nothing_to_be_near_to() -> None:
    rows = uneven()
    done = {("orders", row["partition"]): row["replicas"] for row in rows}
    problem = problem_of(SIX, with_proposed(rows, "balanced", done))
    assert problem.earlier.proposed == {}
    assert searches_of(problem, "balanced") == (Search.FRESH,)


@pytest.mark.parametrize("nothing", [None, []])
def test_a_snapshot_without_an_earlier_proposal_is_as_one_of_an_earlier_version(
    nothing: list[int] | None, tmp_path: Path
) -> None:
    rows = [{**row, "proposed_light": nothing, "proposed_balanced": nothing} for row in uneven()]
    assert write_snapshot(tmp_path, SIX, rows) == write_snapshot(tmp_path, SIX, uneven())
    assert not any(name.startswith("proposed") for name in pq.read_schema(tmp_path / PARTITIONS).names)


def test_a_column_that_holds_no_lists_of_brokers_is_refused_by_its_name(tmp_path: Path) -> None:
    write_snapshot(tmp_path, SIX, with_proposed(uneven(), "light", {("orders", 0): [-2]}))
    with pytest.raises(ArtifactError, match=r"column proposed_light holds -2"):
        read_problem(tmp_path, Settings())
    table = pq.read_table(tmp_path / PARTITIONS)
    texts = table.set_column(table.column_names.index("proposed_light"), "proposed_light", [["[4, 2]"] * len(table)])
    pq.write_table(texts, tmp_path / PARTITIONS)
    with pytest.raises(ArtifactError, match=r"column proposed_light is string, not a list of integers"):
        read_problem(tmp_path, Settings())


@pytest.mark.slow
# Drawn clusters have no log dir that has failed.
@pytest.mark.parametrize(
    "job",
    in_make_test(
        (job for job in JOBS if job not in (*LEADERS_ALONE, REPLACE_LOG_DIR)), "balance", "drain", "replication_factor"
    ),
)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), cluster=clusters())
def test_a_search_from_lists_of_other_settings_and_sizes_keeps_every_promise(
    job: str, data: st.DataObject, cluster: tuple[Rows, Rows]
) -> None:
    brokers, rows = cluster
    asked, before = (data.draw(settings_for(cluster, some)) for some in (job, "balance"))
    name = data.draw(st.sampled_from(NAMES))
    try:
        problem_of(brokers, rows, **asked)  # first, because most clusters cannot have job `replace`
        lists = lists_of(plan_of(brokers, rows, name, **before))
        for row in rows:
            row |= {"size_bytes": row["size_bytes"] and row["size_bytes"] * data.draw(st.integers(1, 3)) // 2}
        rows = with_proposed(rows, name, lists)
        problem = problem_of(brokers, rows, **asked)
    except PlanningError:
        assume(False)
    assume(Search.NEAR in searches_of(problem, name))
    near = searched(problem, name, Search.NEAR)
    if isinstance(near, FoundLists) and np.isfinite(near.off):
        plan = described(problem, name, near)
        verify(plan, problem.snapshot_digest, brokers, rows, Settings.from_mapping(asked))
