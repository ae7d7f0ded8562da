"""What stays on a broker that is to be emptied is told, by broker and reason, before anybody approves."""

from __future__ import annotations

from kafka_rebalance.documents.proposals import Reason
from kafka_rebalance.model.partition import TopicAssignment
from kafka_rebalance.pages.approver_facts import stays_words
from kafka_rebalance.planning.describe.status_and_notes import stays_behind
from kafka_rebalance.run.replicas_in_place import check_emptied
from support.documents.as_in_a_file import in_json
from support.plans.small_snapshots import broker_rows, partition_rows, plan_of, problem_of

BROKERS = broker_rows([1, 2, 3])
ROWS = [
    *partition_rows([[1, 2], [2, 3]]),
    *partition_rows([[1, 3]], topic="kept", size=7),
    *partition_rows([[1, 2], [3, 1]], topic="__consumer_offsets", size=5, excluded=[True, True]),
]


def test_what_run_and_kafka_keep_out_stays_and_is_told_with_the_reason() -> None:
    plan = plan_of(BROKERS, ROWS, "light", job="drain", drain=[1], topics_out=["kept"])
    assert in_json(plan.consequences["stays_behind"]) == [
        {"broker": 1, "reason": "not_selected", "replicas": 1, "size_bytes": 7, "topics": ["kept"], "topic_count": 1},
        {
            "broker": 1,
            "reason": "internal",
            "replicas": 2,
            "size_bytes": 10,
            "topics": ["__consumer_offsets"],
            "topic_count": 1,
        },
    ]


def test_a_candidate_that_only_reorders_leaves_all_of_it() -> None:
    plan = plan_of(BROKERS, ROWS[:2], "leaders_only", job="drain", drain=[1])
    (one,) = in_json(plan.consequences["stays_behind"])
    assert (one["reason"], one["replicas"]) == ("only_reordered", 1)


def test_leadership_alone_leaves_nothing_behind_to_tell() -> None:
    plan = plan_of(BROKERS, ROWS, "leaders_only", job="leaders", drain=[1])
    assert in_json(plan.consequences["stays_behind"]) == []


def test_the_words_name_broker_topic_and_why() -> None:
    problem = problem_of(BROKERS, ROWS, job="drain", drain=[1], topics_out=["kept"])
    found = stays_behind(problem, problem.replicas, moves_replicas=True)
    assert {one.reason for one in found} == {Reason.NOT_SELECTED, Reason.INTERNAL, Reason.NOT_MOVED}
    words = stays_words(found, lambda name: f"`{name}`")
    assert "Broker 1 keeps 1 replica (7 B) of topic `kept`: topics_in and topics_out of the run" in words
    assert "internal_topics is not ticked" in words
    assert words.endswith("The verification fails while such a broker holds anything of topics_in.")
    assert stays_words((), str) == ""


def test_a_broker_that_holds_anything_is_a_failed_check_by_name() -> None:
    topics = {"orders": TopicAssignment({0: (2, 3)}), "made_meanwhile": TopicAssignment({0: (1, 3), 1: (3, 1)})}
    one, two = check_emptied([1, 4], topics, ["*"])
    assert (one.subject, one.passed, one.finding) == ("broker 1", False, "it holds 2 replicas of made_meanwhile (2)")
    assert (two.subject, two.passed) == ("broker 4", True)


def test_what_a_run_of_some_topics_leaves_of_others_is_a_warning_by_name() -> None:
    topics = {"orders": TopicAssignment({0: (1, 3)}), "audit": TopicAssignment({0: (1, 3), 1: (3, 2)})}
    one, two, three = check_emptied([1, 2, 4], topics, ["ord*"])
    assert (one.passed, one.finding) == (False, "it holds 1 replicas of orders (1)")
    assert (two.passed, two.warns) == (True, True)
    assert two.finding == "it still holds 1 replicas of audit (1), which topics_in leaves out"
    assert (three.passed, three.warns) == (True, False)
