"""Job `replace_log_dir`: what lies on log dirs that are offline goes to other brokers, and nothing else moves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import PlanningError, SettingsError
from kafka_rebalance.model.settings import REPLACE_LOG_DIR, Settings
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.rules.goals import candidate_names
from support.plans.drawn_clusters import clusters, settings_for
from support.plans.plan_verifier import verify
from support.plans.small_snapshots import Rows, broker_rows, lists_after, partition_rows, plan_of, problem_of

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
BOTH = [{"path": path, "total_bytes": None, "usable_bytes": None} for path in ("/a", "/b")]
RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
LISTS = [[1, 2, 3], [1, 2, 3], [2, 3, 1], [4, 5, 6]]


def brokers(*failed: int, **columns: Any) -> Rows:
    """Six brokers in three racks with two log dirs each, of which `/b` is offline on those that failed."""
    dirs = {"log_dirs": dict.fromkeys(RACKS, BOTH), "offline_log_dirs": {broker: ["/b"] for broker in failed}}
    return broker_rows(RACKS, RACKS, **{**dirs, **columns})


def partitions(lists: list[list[int]], *lost: tuple[int, int]) -> Rows:
    """Each replica lies in `/a`, but those of `lost`, (partition, broker), which nobody lists."""
    dirs = [
        [None if (number, broker) in lost else "/a" for broker in replicas] for number, replicas in enumerate(lists)
    ]
    return partition_rows(lists, log_dirs=dirs)


def refusal(broker_table: Rows, partition_table: Rows, **asked: Any) -> str:
    with pytest.raises(PlanningError) as refused:
        problem_of(broker_table, partition_table, job=REPLACE_LOG_DIR, **asked)
    return str(refused.value)


def test_exactly_the_replicas_of_the_failed_log_dir_go_elsewhere() -> None:
    rows = partitions(LISTS, (0, 1), (2, 1))
    plan = plan_of(brokers(1), rows, "light", job=REPLACE_LOG_DIR)
    assert {number: set(lists_after(plan, rows)["orders", number]) for number in range(4)} == {
        0: {4, 2, 3},  # 4 is the only other broker in the rack of 1
        1: {1, 2, 3},
        2: {4, 2, 3},
        3: {4, 5, 6},
    }
    figures = plan.candidate.summary
    assert (figures["moved_bytes"], figures["moved_bytes_bound"], plan.candidate.status) == (2000, 2000, "ok")
    assert {move.reason for move in plan.candidate.moves} == {"its log dir on broker 1 is offline"}


def test_a_broker_with_a_failed_log_dir_receives_nothing_even_if_it_is_the_emptiest() -> None:
    rows = partitions([[1, 2], [1, 3], [5, 6]], (0, 1), (1, 1))
    plan = plan_of(brokers(1, 4), rows, "light", job=REPLACE_LOG_DIR)
    assert not {broker for move in plan.candidate.moves for broker in move.added} & {1, 4}
    assert len(plan.candidate.moves) == 2


def test_a_broker_of_brokers_out_keeps_what_lies_on_its_failed_log_dir() -> None:
    rows = partitions([[1, 2], [2, 3]], (0, 1), (1, 2))
    plan = plan_of(brokers(1, 2), rows, "light", job=REPLACE_LOG_DIR, brokers_out=[2])
    assert [move.topic_partition.partition for move in plan.candidate.moves] == [0]


def test_only_one_candidate_is_searched() -> None:
    assert candidate_names(Settings(job=REPLACE_LOG_DIR)) == ("light",)


def test_no_place_in_the_rack_is_infeasible_and_says_so() -> None:
    alone = {1: "a", 2: "b", 3: "c"}
    table = broker_rows(alone, alone, log_dirs=dict.fromkeys(alone, BOTH), offline_log_dirs={1: ["/b"]})
    plan = plan_of(table, partitions([[1, 2, 3]], (0, 1)), "light", job=REPLACE_LOG_DIR)
    assert (plan.candidate.status, plan.candidate.moves) == ("infeasible", ())


@pytest.mark.parametrize(
    ("table", "rows", "why"),
    [
        (brokers(), partitions(LISTS), "every broker says that all its log dirs are online"),
        (brokers(1, log_dirs={b: BOTH for b in RACKS if b != 6}), partitions(LISTS), "the log dirs of broker 6 are un"),
        (brokers(1), partition_rows(LISTS), "the log dirs of the replicas of 3 partitions are unknown"),
    ],
    ids=["none has failed", "a broker does not tell", "no replica's log dir is known"],
)
def test_what_is_not_known_is_never_taken_for_nothing(table: Rows, rows: Rows, why: str) -> None:
    assert why in refusal(table, rows)


@pytest.mark.parametrize("more", [{"drain": [1]}, {"replace": {"1": 2}}])
def test_whole_brokers_are_emptied_by_other_jobs(more: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="takes only what lies on log dirs that are offline"):
        Settings.from_mapping({"job": REPLACE_LOG_DIR, **more})


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=_SLOW)
@given(data=st.data(), cluster=clusters())
def test_every_drawn_plan_keeps_every_promise(data: st.DataObject, cluster: tuple[Rows, Rows]) -> None:
    table, rows = cluster
    holders = sorted({broker for row in rows for broker in row["replicas"]} & {row["broker"] for row in table})
    failed = set(data.draw(st.lists(st.sampled_from(holders), min_size=1, max_size=2, unique=True)))
    for row in table:
        row["log_dirs"], row["offline_log_dirs"] = BOTH, ["/b"] if row["broker"] in failed else []
        row["state"] = None
    for row in rows:
        lost = [broker in failed and data.draw(st.sampled_from([False, True, True])) for broker in row["replicas"]]
        row["log_dirs"] = [None if is_lost else "/a" for is_lost in lost]
        row["excluded"] = row["excluded"] or all(lost) or None  # nobody leads it
    assume(any(None in row["log_dirs"] and not row["excluded"] for row in rows))
    asked = data.draw(settings_for(cluster, REPLACE_LOG_DIR))
    try:
        problem = problem_of(table, rows, **asked)
    except PlanningError:
        assume(False)
    plan = propose(problem, "light")
    verify(plan, problem.snapshot_digest, table, rows, Settings.from_mapping(asked))
