"""The report of a run's documents: what it says at each stage, and that it refuses what it cannot read."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.pages.run_state import RunState
from kafka_rebalance.pages.tables import LARGEST_MOVES
from support.documents import report_samples as samples
from support.documents.built_report import planned


@pytest.mark.parametrize(
    ("documents", "state"),
    [
        ({"proposals": None}, RunState.PLANNING),
        ({}, RunState.WAITING),
        ({"snapshot": samples.snapshot(policy=None, policy_digest=None)}, RunState.READ_ONLY),
        ({"decision": samples.decision("Reject", digest=None)}, RunState.REJECTED),
        ({"decision": {"format_version": 1, "choice": None, "expired": True}}, RunState.UNANSWERED),
        ({"decision": samples.decision()}, RunState.APPROVED),
        ({"decision": samples.decision(), "batches": samples.batches()}, RunState.EXECUTING),
        ({"decision": samples.decision(), "verification": samples.verification(passed=True)}, RunState.VERIFIED),
        (
            {"decision": samples.decision(), "verification": samples.verification(passed=False)},
            RunState.NOT_AS_APPROVED,
        ),
    ],
)
def test_the_state_follows_from_what_is_in_the_folder(documents: dict[str, Any], state: RunState) -> None:
    assert planned(**documents).state == state


@pytest.mark.parametrize(("choice", "name"), [(None, "balanced"), ("light", "light"), ("Reject", "balanced")])
def test_the_approved_candidate_is_in_focus_else_the_recommended_one(choice: str | None, name: str) -> None:
    focus = planned(decision=samples.decision(choice) if choice else None).focus
    assert focus is not None
    assert focus.name == name


def test_an_approval_of_another_digest_is_a_problem_and_no_candidate_counts_as_approved() -> None:
    (problem,) = planned(decision=samples.decision(digest="f" * 64)).problems
    assert "digest ffffffff, which is not a candidate of this run" in problem


def test_the_largest_moves_come_first_and_their_number_is_bounded() -> None:
    many = samples.moves(LARGEST_MOVES + 20)
    focus = planned(moves={"balanced": many[::-1]}).focus
    assert focus is not None
    assert focus.partitions == LARGEST_MOVES + 20
    assert len(focus.largest_moves) == LARGEST_MOVES
    sizes = [move.bytes_to_copy for move in focus.largest_moves]
    assert sizes == sorted(sizes, reverse=True)


def test_failed_checks_come_first() -> None:
    checked = planned(decision=samples.decision(), verification=samples.verification()).verification
    assert checked is not None
    failed = [not check.passed for check in checked.checks]
    assert failed == sorted(failed, reverse=True)
    assert 17 < sum(failed) < len(failed)


def test_each_limit_says_how_much_of_it_the_candidate_uses() -> None:
    limits = {use.name: use for use in planned().limits}
    assert limits["Bytes copied"].share == pytest.approx(287.3 / 330, abs=0.001)
    held = limits["Replicas on a broker that gets some"]
    assert (held.allowed, held.used) == ("4,000", "240"), "of brokers 5 and 6; the others give some away"
    assert limits["Partitions in one batch"].used == "12"
    assert limits["Throttle of one broker"].allowed == "977 KiB/s to 95.4 MiB/s"
    controller = limits["Znodes that the controller rewrites for one batch"]
    assert (controller.allowed, controller.used) == ("8.00 MiB, fixed", "115 KiB")


def test_a_plan_that_did_not_count_what_the_controller_rewrites_says_nothing_of_it() -> None:
    plan = samples.proposals_of("controller_bytes", "copies_at_once")
    assert not [use for use in planned(proposals=plan).limits if "controller" in use.name]


def test_the_throttle_that_was_approved_is_the_one_that_counts() -> None:
    limits = {use.name: use for use in planned(decision=samples.decision()).limits}
    assert limits["Throttle of one broker"].used == "47.7 MiB/s"


def without(document: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key}


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        (
            {"snapshot": without(samples.snapshot(), "cluster_id")},
            "snapshot.json: Object missing required field cluster_id",
        ),
        ({"snapshot": samples.snapshot(brokers="6")}, "snapshot.json: brokers: Expected int, got str"),
        (
            {"snapshot": samples.snapshot(observed_at="2026-05-03T14:32:10")},
            "observed_at: Expected a time in ISO 8601 with its zone",
        ),
        (
            {"snapshot": samples.snapshot(controller=samples.controller(epochs_read=[41]))},
            "snapshot.json: controller.epochs_read: Expected array of length 2, got 1",
        ),
        ({"proposals": samples.proposals(candidates={})}, "proposals.json: candidates: Expected array, got object"),
        (
            {"progress": samples.progress(bytes_per_second="many")},
            r"progress.json: bytes_per_second: Expected float \| null, got str",
        ),
        (
            {"verification": {"passed": True, "checks": [3]}},
            r"verification.json: checks\[0\]: Expected object, got int",
        ),
        ({"loads": {"balanced": samples.loads()["balanced"][1:]}}, r"broker 1 of balanced has the phases \['after'\]"),
    ],
)
def test_a_document_with_a_wrong_value_is_refused_by_name(documents: dict[str, Any], words: str) -> None:
    with pytest.raises(ArtifactError, match=words):
        planned(**documents)
