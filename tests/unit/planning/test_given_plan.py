"""Candidates that are not searched: a plan that somebody gives, and what Kafka's own tool would propose."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_rebalance.documents.candidate_notes import NoteKind
from kafka_rebalance.documents.proposals import Why
from kafka_rebalance.errors import KafkaRuleError, PlanningError, SettingsError
from kafka_rebalance.kafka.assignment import assign_replicas
from kafka_rebalance.kafka.reassignment_json import (
    canonical_plan,
    format_reassignment,
    parse_plan,
    parse_reassignment,
)
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import SEARCHED, Settings
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.planner import run
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.recommendation import recommend
from kafka_rebalance.planning.rules.goals import candidate_names
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from kafka_rebalance.planning.tables.result_tables import read_candidate
from support.documents.as_in_a_file import in_json
from support.plans.drawn_clusters import clusters, settings_for
from support.plans.plan_verifier import verify
from support.plans.small_snapshots import Rows, as_written, broker_rows, partition_rows, plan_of, problem_of

RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
BROKERS = broker_rows(RACKS, RACKS)
ORDERS = partition_rows([[1, 2], [2, 3], [3, 1], [1, 3]])


def plan_text(lists: dict[int, list[int]], topic: str = "orders", **extra: Any) -> str:
    entries = [{"topic": topic, "partition": p, "replicas": replicas, **extra} for p, replicas in lists.items()]
    return json.dumps({"version": 1, "partitions": entries})


def given_plan(lists: dict[int, list[int]], *, brokers: Rows = BROKERS, partitions: Rows = ORDERS, **asked: Any) -> Any:
    return as_written(plan_of(brokers, partitions, "given", plan=plan_text(lists), **asked))


def test_a_given_plan_is_taken_as_it_is_and_measured_like_ours(tmp_path: Path) -> None:
    write_snapshot(tmp_path, BROKERS, ORDERS)
    asked = Settings(plan=plan_text({0: [4, 2], 2: [3, 6]}), throttle_bytes_per_second=10)
    plans = run(tmp_path, tmp_path / "out", asked)
    assert [plan.candidate.name for plan in plans] == [*SEARCHED, "given"]
    candidate = read_candidate(tmp_path / "out", "given")
    assert candidate == as_written(plans[-1])
    assert {move.topic_partition.partition: move.after for move in candidate.moves} == {0: (4, 2), 2: (3, 6)}
    assert {move.reason for move in candidate.moves} == {"given by the requester"}
    assert candidate.status == "ok"
    figures = candidate.summary
    assert (figures["moved_bytes"], figures["moved_replicas"], figures["leader_changes"]) == (2000, 2, 1)
    assert figures["makespan_seconds"] >= figures["makespan_bound_seconds"] > 0
    assert plans[-1].scores_after["replicas"].min_over_mean == 0  # broker 5 still holds nothing
    assert plans[-1].scores_before == plans[0].scores_before


@pytest.mark.slow
def test_our_own_candidates_are_the_same_with_a_given_plan_beside_them() -> None:
    for name in SEARCHED:
        alone, beside = (plan_of(BROKERS, ORDERS, name, plan=plan) for plan in (None, plan_text({0: [4, 2]})))
        assert alone.candidate.moves == beside.candidate.moves


def test_entries_that_change_nothing_are_left_out_and_said() -> None:
    candidate = given_plan({0: [1, 2], 1: [2, 3], 3: [1, 6]})
    assert [move.topic_partition.partition for move in candidate.moves] == [3]
    assert "2 of the plan's 3 partitions already match it, and are left out" in candidate.note


def test_an_order_of_followers_that_is_asked_for_is_kept() -> None:
    candidate = given_plan({0: [1, 3, 2]}, partitions=partition_rows([[1, 2, 3]]))
    assert [move.after for move in candidate.moves] == [(1, 3, 2)]
    assert candidate.summary["moved_bytes"] == 0


def test_a_plan_that_changes_the_replication_factor_says_so() -> None:
    candidate = given_plan({0: [1, 2, 3], 1: [2], 2: [3]})
    assert "the replication factor changes for 3 partitions: 2 from 2 to 1, 1 from 2 to 3" in candidate.note.lower()
    assert candidate.status == "ok"
    assert candidate.summary["moved_bytes"] == 1000
    assert candidate.summary["moved_bytes_bound"] <= 1000


def test_a_plan_below_min_insync_replicas_is_not_offered_and_names_topics_and_figures() -> None:
    rows = partition_rows([[1, 2, 3], [1, 2, 3], [1]], min_insync_replicas=[2, 2, 2])  # the third is below it already
    candidate = given_plan({0: [1, 2], 1: [1], 2: [2]}, partitions=rows)
    assert (candidate.status, candidate.moves) == ("infeasible", ())
    assert "1 partitions would have fewer replicas than min.insync.replicas: orders (2), first orders-1" in (
        candidate.note
    )


def test_a_plan_down_to_min_insync_replicas_is_offered_with_a_warning() -> None:
    rows = partition_rows([[1, 2, 3], [1, 2, 3], [1]], min_insync_replicas=[2, 2, 2])
    candidate = given_plan({0: [1, 2], 2: [2]}, partitions=rows)
    assert candidate.status == "ok"
    assert "1 partitions of orders would have exactly as many replicas as min.insync.replicas" in candidate.note


def test_rack_violations_of_a_plan_are_counted_and_the_new_ones_said() -> None:
    candidate = given_plan({0: [1, 4], 1: [2, 3]}, partitions=partition_rows([[1, 2], [2, 5], [3, 6]]))
    assert candidate.summary["rack_violations"] == 2  # the first is new, the second mended, the third was there
    assert "1 partitions that keep the rack rule now would break it" in candidate.note
    assert candidate.status == "ok"


INTERNAL = partition_rows([[1, 2]], topic="__consumer_offsets", excluded=[True])


@pytest.mark.parametrize(
    ("asked", "figures"),
    [
        ({"max_bytes": 1999}, "2,000 against max_bytes 1,999"),
        ({"max_leader_changes": 0}, "1 against max_leader_changes 0"),
        ({"topics_out": ["ord*"], "topics_in": ["*"]}, "2 partitions may not be changed (topics_in, topics_out"),
        ({"brokers_out": [4]}, "brokers_out keeps out broker 4"),
        ({"brokers_out": [1]}, "brokers_out keeps out broker 1"),
        ({"brokers_out": [3]}, None),  # it only leads on
        ({"job": "drain", "drain": [4]}, "broker 4 would receive replicas, but must be emptied"),
    ],
)
def test_a_plan_beyond_a_limit_is_not_offered_with_the_figures_and_never_trimmed(
    asked: dict[str, Any], figures: str | None
) -> None:
    candidate = given_plan({0: [4, 2], 2: [3, 6], 1: [2, 3]}, partitions=ORDERS + INTERNAL, **asked)
    if figures is None:
        assert "brokers_out" not in candidate.note
        return
    assert candidate.status == "infeasible"
    assert candidate.moves == ()
    assert figures in candidate.note
    assert "the given plan, because it is beyond the limits" in candidate.note


def test_leaders_of_brokers_that_are_out_stay_with_them() -> None:
    for lists in ({0: [2, 1]}, {1: [3, 2]}):  # takes it from broker 1; gives it to broker 3
        assert "brokers_out keeps out" in given_plan(lists, brokers_out=[1, 3]).note
    assert "brokers_out keeps out broker 2" in given_plan({0: [1, 3]}, brokers_out=[2]).note  # a follower


def test_internal_topics_are_not_changed_by_a_plan_unless_they_may_be() -> None:
    text = plan_text({0: [1, 3]}, topic="__consumer_offsets")
    allowed = [row | {"excluded": False} for row in INTERNAL]
    kept, moved = (plan_of(BROKERS, ORDERS + rows, "given", plan=text) for rows in (INTERNAL, allowed))
    (why,) = kept.notes[0].figures["why"]
    first = TopicPartition("__consumer_offsets", 0)
    assert (why.kind, why.figures) == (NoteKind.KEPT_OUT, {"partitions": 1, "first": first})
    assert [move.after for move in moved.candidate.moves] == [(1, 3)]


def test_a_plan_that_overfills_a_disk_is_not_offered() -> None:
    brokers = broker_rows([1, 2, 3], disk_capacity_bytes=dict.fromkeys([1, 2, 3], 10_000))
    rows = partition_rows([[1], [1], [2], [3]], size=4000)
    assert given_plan({0: [2]}, brokers=brokers, partitions=rows).status == "ok"
    candidate = given_plan({0: [2], 3: [2]}, brokers=brokers, partitions=rows)
    assert candidate.status == "infeasible"
    assert "the disk of broker 2 would be 120 % full, and disk_headroom leaves 90 %" in candidate.note
    full = [row | {"disk_used_bytes": 9_900 if row["broker"] == 3 else 4_000} for row in brokers]
    assert given_plan({0: [2]}, brokers=full, partitions=rows).status == "ok"  # broker 3 is full, and receives nothing


def test_replicas_that_a_plan_leaves_on_a_drained_broker_are_said() -> None:
    candidate = given_plan({0: [4, 2]}, job="drain", drain=[1])
    assert candidate.status == "partial"
    assert "2 replicas on brokers that are to be emptied are kept where they are" in candidate.note
    assert candidate.summary["moved_bytes_bound"] <= candidate.summary["moved_bytes"] == 1000


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (plan_text({9: [1]}), KafkaRuleError, "The proposed assignment contains non-existent partitions"),
        (plan_text({0: [1]}, topic="nowhere"), KafkaRuleError, "non-existent partitions"),
        (plan_text({0: [1, 77]}), KafkaRuleError, "The proposed assignment contains non-existent brokerIDs"),
        (plan_text({0: []}), KafkaRuleError, "Partition replica list cannot be empty"),
        (plan_text({0: [1, 1]}), KafkaRuleError, "may not contain duplicate entries"),
        (plan_text({}), KafkaRuleError, "Partition reassignment data file is empty"),
        (plan_text({0: [4, 2]}, log_dirs=["any", "/data/2"]), SettingsError, 'Write "any" for each'),
    ],
)
def test_a_plan_that_kafkas_tool_would_refuse_is_refused_before_anything_is_planned(
    text: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        problem_of(BROKERS, ORDERS, plan=text)


def test_a_broker_that_is_down_does_not_exist_for_a_plan() -> None:
    rows = partition_rows([[1, 9], [2, 3]])
    with pytest.raises(KafkaRuleError, match="non-existent brokerIDs: 9"):
        problem_of(BROKERS, rows, plan=plan_text({0: [9, 2]}), job="drain", drain=[9])
    assert plan_of(BROKERS, rows, "given", plan=plan_text({0: [1, 2]}), job="drain", drain=[9]).candidate.moves


def test_one_plan_has_one_form_and_one_digest() -> None:
    one = plan_text({2: [3, 6], 0: [4, 2]}, log_dirs=["any", "any"])
    other = f"\n {plan_text({0: [4, 2], 2: [3, 6]})} "
    assert one != other
    assert canonical_plan(one) == canonical_plan(other) == canonical_plan(canonical_plan(one))
    digests = {plan_of(BROKERS, ORDERS, "given", plan=canonical_plan(text)).candidate.digest for text in (one, other)}
    assert len(digests) == 1


def test_the_whole_output_of_generate_is_a_plan() -> None:
    current, proposed = plan_text({0: [1, 2]}), plan_text({0: [5, 6]}, log_dirs=["any", "any"])
    output = f"Current partition replica assignment\n{current}\n"
    output += f"\nProposed partition reassignment configuration\n{proposed}\n"
    assert parse_plan(output) == {("orders", 0): (5, 6)}


def test_the_planner_alone_takes_a_plan_in_any_form(tmp_path: Path) -> None:
    write_snapshot(tmp_path, BROKERS, ORDERS)
    plans = run(tmp_path, tmp_path / "out", Settings(candidates=("light",), plan=f" {plan_text({0: [4, 2]})}\n"))
    assert [plan.candidate.name for plan in plans] == ["light", "given"]


def test_as_kafka_is_what_generate_proposes_for_every_selected_topic() -> None:
    rows = ORDERS + partition_rows([[1, 2, 3]] * 3, topic="audit") + partition_rows([[6]], topic="kept")
    plan = plan_of(BROKERS, rows, "as_kafka", seed=7, topics_out=["kept"])
    rng = random.Random(7)
    drawn = {
        topic: assign_replicas(list(RACKS), partitions, factor, racks=RACKS, rng=rng)
        for topic, partitions, factor in (("audit", 3, 3), ("orders", 4, 2))
    }
    wanted = {(topic, number): replicas for topic, lists in drawn.items() for number, replicas in lists.items()}
    before = {(row["topic"], row["partition"]): tuple(row["replicas"]) for row in rows}
    moved = {tuple(move.topic_partition): move.after for move in plan.candidate.moves}
    assert moved == {key: replicas for key, replicas in wanted.items() if before[key] != replicas}
    assert {move.reason for move in plan.candidate.moves} == {"as Kafka's own tool would place it"}
    assert plan.candidate.summary["rack_violations"] == 0


def test_as_kafka_places_on_brokers_that_stay_and_may_receive() -> None:
    rows = partition_rows([[1, 2], [2, 3]] * 4)
    candidate = as_written(plan_of(BROKERS, rows, "as_kafka", job="drain", drain=[1], brokers_out=[4]))
    assert candidate.status == "ok"
    added = {broker for move in candidate.moves for broker in move.added}
    assert added <= {2, 3, 5, 6}


def test_as_kafka_beyond_the_limits_is_not_offered() -> None:
    candidate = as_written(plan_of(BROKERS, ORDERS, "as_kafka", max_bytes=10))
    assert candidate.status == "infeasible"
    assert "the proposal of Kafka's own tool, because it is beyond the limits" in candidate.note
    assert "against max_bytes 10" in candidate.note


@pytest.mark.parametrize(
    ("rows", "brokers_out", "words"),
    [
        (partition_rows([[1, 2, 3]]), [4, 5, 6, 2], "Replication factor: 3 larger than available brokers: 2."),
        ([row for row in ORDERS if row["partition"] != 1], [], "non-existent partitions"),
    ],
)
def test_where_kafkas_tool_would_refuse_as_kafka_says_so_and_the_rest_is_planned(
    rows: Rows, brokers_out: list[int], words: str
) -> None:
    problem = problem_of(BROKERS, rows, candidates=["balanced", "as_kafka"], brokers_out=brokers_out)
    ours, theirs = (as_written(propose(problem, name)) for name in candidate_names(problem.settings))
    assert ours.status != "infeasible"
    assert theirs.status == "infeasible"
    assert words in theirs.note


def test_without_all_racks_as_kafka_places_without_any() -> None:
    brokers = broker_rows([1, 2, 3, 4], {1: "a", 2: "a", 3: "a"})
    assert plan_of(brokers, ORDERS, "as_kafka", rackless_brokers="one_rack").candidate.status == "ok"


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, SEARCHED),
        ({"candidates": ["as_kafka", "light"]}, ("light", "as_kafka")),
        ({"plan": "{}"}, (*SEARCHED, "given")),
        ({"job": "leaders", "candidates": ["balanced", "leaders_only", "as_kafka"], "plan": "{}"},
         ("leaders_only", "as_kafka", "given")),
    ],
)  # fmt: skip
def test_the_given_plan_is_always_computed_and_as_kafka_when_asked_for(
    asked: dict[str, Any], names: tuple[str, ...]
) -> None:
    assert candidate_names(Settings.from_mapping(asked)) == names


EVEN = partition_rows([[1, 2], [2, 3], [3, 1]])
THREE = broker_rows([1, 2, 3])


def proposals_of(brokers: Rows, rows: Rows, **asked: Any) -> tuple[Problem, list[DescribedCandidate]]:
    problem = problem_of(brokers, rows, candidates=[*SEARCHED, "as_kafka"], seed=4, **asked)
    return problem, [propose(problem, name) for name in candidate_names(problem.settings)]


@pytest.mark.slow
def test_ours_is_recommended_and_the_given_plan_only_where_ours_changes_nothing() -> None:
    as_even = plan_text({0: [2, 3], 1: [1, 2]})
    for brokers, rows, expected in ((BROKERS, ORDERS, "balanced"), (THREE, EVEN, "given")):
        problem, plans = proposals_of(brokers, rows, plan=as_even)
        assert any(plan.candidate.moves for plan in plans if plan.candidate.name == "as_kafka")
        assert recommend(problem.settings, plans).candidate == expected
    only_kafka = [plan for plan in plans if plan.candidate.name == "as_kafka"]
    assert recommend(problem.settings, only_kafka).candidate is None


def test_a_given_plan_that_ends_less_even_is_offered_and_not_recommended() -> None:
    problem, plans = proposals_of(THREE, EVEN, plan=plan_text({0: [1, 3]}))
    given = plans[-1]
    assert given.candidate.name == "given"
    assert given.candidate.status == "ok"
    worse = given.less_even()
    assert worse is not None
    assert in_json(worse) == {
        "metric": "replicas",
        "before": {"lowest": 1.0, "highest": 1.0},
        "after": {"lowest": 0.5, "highest": 1.5},
    }
    found = recommend(problem.settings, plans)
    assert (found.candidate, found.why) == (None, Why.GIVEN_IS_LESS_EVEN)


def test_a_given_plan_that_ends_less_even_is_refused_where_the_policy_says_so() -> None:
    _, plans = proposals_of(THREE, EVEN, plan=plan_text({0: [1, 3]}), less_even_plan="refuse")
    given = as_written(plans[-1])
    assert (given.status, given.moves) == ("infeasible", ())
    assert "carry 1.00 to 1.00 of their share of replicas now, and would carry 0.50 to 1.50" in given.note
    as_even = plan_text({0: [2, 3], 1: [1, 2]})
    assert proposals_of(THREE, EVEN, plan=as_even, less_even_plan="refuse")[1][-1].candidate.status == "ok"


def test_a_given_plan_that_does_not_do_the_job_is_not_recommended() -> None:
    """Broker 3 is to be emptied; ours cannot, since no other may receive."""
    problem = problem_of(
        broker_rows([1, 2, 3, 4]),
        partition_rows([[1, 3], [2, 3]]),
        plan=plan_text({0: [3, 1]}),
        candidates=["light"],
        job="drain",
        drain=[3],
        max_bytes=0,
    )
    plans = [propose(problem, name) for name in candidate_names(problem.settings)]
    assert [plan.candidate.status for plan in plans] == ["infeasible", "partial"]
    found = recommend(problem.settings, plans)
    assert found.candidate is None
    assert found.why in (Why.GIVEN_FALLS_SHORT, Why.GIVEN_IS_LESS_EVEN)


def test_a_load_too_small_to_be_shared_is_no_imbalance() -> None:
    brokers, rows = broker_rows([1, 2, 3]), partition_rows([[1]], bytes_out_per_second=[5e-324])
    for name in ("leaders_only", "given"):
        candidate = as_written(plan_of(brokers, rows, name, plan=plan_text({0: [2]})))
        assert candidate.status == "ok"
        assert "leader_bytes_out" not in candidate.note


_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=_SLOW)
@given(data=st.data(), cluster=clusters(), job=st.sampled_from(["balance", "drain", "replication_factor"]))
def test_any_plan_keeps_every_promise_or_is_refused(data: st.DataObject, cluster: tuple[Rows, Rows], job: str) -> None:
    brokers, partitions = cluster
    ids = [row["broker"] for row in brokers]
    asked = data.draw(settings_for(cluster, job))
    rows = data.draw(
        st.lists(st.sampled_from(partitions), min_size=1, unique_by=lambda r: (r["topic"], r["partition"]))
    )
    lists = {
        (row["topic"], row["partition"]): data.draw(
            st.lists(st.sampled_from([*row["replicas"], *ids]), min_size=1, max_size=4, unique=True)
        )
        for row in rows
    }
    text = format_reassignment(lists)  # type: ignore[arg-type]
    assert parse_reassignment(text) == {key: tuple(replicas) for key, replicas in lists.items()}
    asked |= {"plan": text, "candidates": ["as_kafka"]}
    try:
        problem = problem_of(brokers, partitions, **asked)
        plans = [propose(problem, name) for name in ("given", "as_kafka")]
    except PlanningError as wrong:
        refused = str(wrong)
        plans = []
    assert plans or "Nothing was planned" in refused
    for plan in plans:
        verify(plan, problem.snapshot_digest, brokers, partitions, Settings.from_mapping(asked))
