"""The approval task: what it asks, of whom, and which answers it lets through. Airflow's side of it is simulated."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.exceptions import AirflowException
from airflow.providers.standard.exceptions import HITLTimeoutError
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ApprovalError, ArtifactError, StorageError
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning import planner
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.rebalance import report as render_report
from kafka_rebalance.run.approved_plan import read_approved
from kafka_rebalance.workflow.run_step import step_inputs
from support.airflow.approval_requests import EVEN, LEADERS_EVEN, POLICY, SKEWED, Asked, World


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., World]:
    def park(self: HITLOperator, context: Any) -> None:
        raise Asked

    monkeypatch.setattr(HITLOperator, "execute", park)
    return lambda partitions=SKEWED, **topic_config: World(
        tmp_path, monkeypatch, partitions, {key.replace("_", "."): value for key, value in topic_config.items()}
    )


def test_the_request_has_as_many_options_as_airflow_shows_buttons_the_recommended_first(
    make: Callable[..., World],
) -> None:
    world = make()
    operator = world.ask()
    assert world.proposals["recommended"] == "balanced"
    digests = {c["name"]: c["digest"][:8] for c in world.proposals["candidates"]}
    assert len(digests) == 4
    assert len(operator.options) == 4
    assert operator.options[0] == f"balanced · {digests['balanced']}"
    assert operator.options[-1] == "Reject"
    offered = [option.split(" · ")[0] for option in operator.options[:-1]]
    assert offered == world.proposals["ranking"][:3]
    (aside,) = set(digests) - set(offered)
    assert f"No button for `{aside}`" in operator.body


def test_an_answer_for_a_candidate_without_a_button_does_not_count(make: Callable[..., World]) -> None:
    world = make()
    world.ask()
    aside = next(c for c in world.proposals["candidates"] if c["name"] == world.proposals["ranking"][3])
    with pytest.raises(AirflowFailException, match="is not for this plan"):
        world.answer(f"{aside['name']} · {aside['digest'][:8]}")


def test_the_requester_is_not_asked(make: Callable[..., World]) -> None:
    assert make().ask().assigned_users == [{"id": "uma", "name": "uma"}]


def test_the_form_keeps_the_throttle_within_the_policy(make: Callable[..., World]) -> None:
    form = make().ask().serialized_params
    assert set(form) == {"throttle_bytes_per_second", "note"}
    schema = form["throttle_bytes_per_second"]["schema"]
    assert (schema["minimum"], schema["maximum"]) == (1_000_000, 5_000_000)
    said = form["throttle_bytes_per_second"]["description"]
    assert "1000000 to 5000000 bytes/s (977 KiB/s to 4.77 MiB/s)" in said
    assert "null" in form["note"]["schema"]["type"]


def write_rates(world: World, **by_candidate: dict[str, Any]) -> None:
    """As `render_report` leaves them."""
    json_files.write_json(world.folder, json_files.RATES, {"candidates": by_candidate})


def test_the_form_offers_the_automatic_rate_and_none_at_which_no_copy_could_end(make: Callable[..., World]) -> None:
    world = make()
    found = {"least_bytes_per_second": 1_500_000, "reason": "busy", "auto_bytes_per_second": 3_000_000, "why": "free"}
    write_rates(world, **{candidate["name"]: found for candidate in world.proposals["candidates"]})
    field = world.ask().serialized_params["throttle_bytes_per_second"]
    assert (field["value"], field["schema"]["minimum"]) == (3_000_000, 1_500_000)
    assert "Automatic: free." in field["description"]


def test_an_answer_with_a_rate_at_which_its_copies_could_not_end_does_not_count(make: Callable[..., World]) -> None:
    world = make()
    write_rates(world, light={"least_bytes_per_second": 2_000_001, "reason": "broker 3 takes in 1.91 MiB/s"})
    world.ask()
    with pytest.raises(
        AirflowFailException, match=r"2000000 bytes/s the copies of light never end.*2000001 bytes/s.*broker 3"
    ):
        world.answer(world.option("light"))
    assert not (world.folder / json_files.DECISION).exists()


def ask_for_range(world: World, lowest: int) -> None:
    """As if the run had been asked for with it."""
    for name, key in ((json_files.SNAPSHOT, "settings"), (json_files.SETTINGS, None)):
        written = json_files.read_json(world.folder, name)
        (written[key] if key else written)["throttle_from_bytes_per_second"] = lowest
        json_files.write_json(world.folder, name, written)


@pytest.mark.parametrize(
    ("lowest", "least", "highest", "approved"),
    [
        (1_200_000, 1_000_000, None, 1_200_000),
        (1_200_000, 1_500_000, None, 1_500_000),  # copies end only above that
        (1_200_000, 1_000_000, 4_000_000, 1_200_000),
        (1_200_000, 1_000_000, 1_100_000, None),  # the approver wants one rate, below the range
    ],
)
def test_a_range_is_approved_with_the_low_end_at_which_copies_can_end(
    make: Callable[..., World], lowest: int, least: int, highest: int | None, approved: int | None
) -> None:
    world = make()
    ask_for_range(world, lowest)
    write_rates(world, light={"least_bytes_per_second": least, "reason": "busy"})
    field = world.ask().serialized_params["throttle_bytes_per_second"]
    assert "It is the high end of a range" in field["description"]
    given: dict[str, Any] = {} if highest is None else {"throttle_bytes_per_second": highest}
    world.answer(world.option("light"), **given)
    assert world.decision["throttle_bytes_per_second"] == (highest or 2_000_000)
    assert world.decision.get("throttle_from_bytes_per_second") == approved


def test_the_body_names_every_digest_and_stays_short(make: Callable[..., World]) -> None:
    world = make()
    operator = world.ask()
    assert len(operator.body.encode()) <= 8192
    assert all(candidate["digest"][:8] in operator.body for candidate in world.proposals["candidates"])
    assert "because" in operator.body


@pytest.mark.parametrize(
    ("base", "ours"), [("https://airflow.example.org/team/", "https://airflow.example.org/team"), ("/team", "/team")]
)
def test_report_and_picture_are_found_from_outside_airflow(
    make: Callable[..., World], monkeypatch: pytest.MonkeyPatch, base: str, ours: str
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    body = make().ask().body
    assert f"({ours}/dags/kafka_rebalance/runs/run/plugin/rebalance)" in body
    assert f"]({ours}/kafka-rebalance/run/kafka_rebalance/run/brokers.svg)" in body


def test_an_approval_is_written_down_with_who_when_and_what(make: Callable[..., World]) -> None:
    world = make()
    world.ask()
    world.answer(world.option("light"), note="go")
    decision = world.decision
    assert decision["choice"] == "light"
    assert decision["approved_by"] == {"id": "uma", "name": "uma"}
    assert decision["approved_at"] == "2026-11-21T00:00:00+00:00"
    assert decision["throttle_bytes_per_second"] == 2_000_000
    assert decision["note"] == "go"
    (row,) = world.noted
    assert (row["dag_id"], row["run_id"], row["choice"], row["digest"]) == (
        *("kafka_rebalance", "run", "light"),
        decision["digest"],
    )
    assert (row["by"], row["at"], row["note"]) == ("uma", datetime(2026, 11, 21, tzinfo=UTC), "go")
    assert (row["expired"], row["refused"], row["throttle_bytes_per_second"]) == (False, None, 2_000_000)
    plan = read_approved(step_inputs(world.dag_run), world.xcom["decision"])
    assert plan.candidate.name == "light"
    assert plan.candidate.digest == decision["digest"]


def test_reject_skips_all_that_follows_but_the_teardown(make: Callable[..., World]) -> None:
    world = make()
    world.ask()
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        world.answer("Reject")
    assert set(skipped.value.tasks) == {"hold_throttle", "reassign", "verify"}
    assert world.decision["choice"] == "Reject"
    assert [(row["choice"], row["by"], row["digest"]) for row in world.noted] == [("Reject", "uma", None)]
    with pytest.raises(ApprovalError):
        read_approved(step_inputs(world.dag_run), world.xcom["decision"])


@pytest.mark.parametrize(
    ("option", "user", "form", "text"),
    [
        ("balanced · 00000000", "uma", {}, "is not for this plan"),
        (None, "olive", {}, "does not count"),
        (None, "vera", {}, "does not count"),
        (None, None, {}, "does not count"),
        (None, "uma", {"throttle_bytes_per_second": 9_000_000}, "outside the policy"),
    ],
)
def test_an_answer_that_must_not_count_fails_and_leaves_no_decision(
    make: Callable[..., World], option: str | None, user: str | None, form: dict[str, Any], text: str
) -> None:
    world = make()
    world.ask()
    with pytest.raises(AirflowFailException, match=text):
        world.answer(option or world.option("balanced"), user, **form)
    assert not (world.folder / json_files.DECISION).exists()
    assert "decision" not in world.xcom
    ((choice, by, refused),) = [(row["choice"], row["by"], row["refused"]) for row in world.noted]
    assert (choice, by) == (None, user)
    assert text in refused


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"chosen_options": ["Reject"], "responded_by_user": {"id": "uma", "name": "uma"}}, "Rejected"),
        ({"error": "timed out", "error_type": "timeout"}, "Ended without an answer"),
    ],
)
def test_the_file_of_the_report_says_that_nothing_was_approved(
    make: Callable[..., World], event: dict[str, Any], said: str
) -> None:
    world = make()
    world.ask()
    with pytest.raises((DownstreamTasksSkipped, HITLTimeoutError)):
        world.operator.execute_complete(world.context, event)
    report = (world.folder / json_files.REPORT).read_text()
    assert said in report
    assert "Waits for approval" not in report


def test_a_rejection_stays_one_where_the_file_of_the_report_cannot_be_written(
    make: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make()
    world.ask()

    def away(folder: object) -> None:
        raise StorageError("the storage was away")

    monkeypatch.setattr(render_report, "write_report", away)
    with pytest.raises(DownstreamTasksSkipped):
        world.answer("Reject")
    assert world.decision["choice"] == "Reject"


def test_an_expired_request_fails_and_says_so(make: Callable[..., World]) -> None:
    world = make()
    world.ask()
    with pytest.raises(HITLTimeoutError, match="Nobody answered within 86400 s"):
        world.operator.execute_complete(world.context, {"error": "timed out", "error_type": "timeout"})
    assert world.decision["expired"] is True
    assert [(row["choice"], row["by"], row["expired"]) for row in world.noted] == [(None, None, True)]


def test_each_answer_to_a_request_that_was_cleared_is_kept_and_one_noted_twice_is_one(
    make: Callable[..., World],
) -> None:
    world = make()
    world.ask()
    for _ in range(2):
        with pytest.raises(AirflowFailException):
            world.answer("balanced · 00000000")
    for _ in range(2):
        world.answer(world.option("light"))
    assert sorted(row["choice"] or "refused" for row in world.noted) == ["light", "refused", "refused"]


def test_without_a_policy_nothing_is_asked_and_all_is_skipped(make: Callable[..., World]) -> None:
    world = make()
    world.policy_file.unlink()
    snapshot = json_files.read_json(world.folder, json_files.SNAPSHOT)
    json_files.write_json(world.folder, json_files.SNAPSHOT, {**snapshot, "policy": None, "policy_digest": None})
    with pytest.raises(DownstreamTasksSkipped):
        world.operator.execute(world.context)


def test_a_balanced_cluster_asks_nobody(make: Callable[..., World]) -> None:
    world = make(EVEN)
    with pytest.raises(DownstreamTasksSkipped):
        world.operator.execute(world.context)


def test_candidates_whose_copies_would_stop_are_not_offered(make: Callable[..., World]) -> None:
    """Only the one that re-orders lists is: it copies nothing."""
    world = make(segment_bytes="100000")
    operator = world.ask()
    assert [option.split(" · ")[0] for option in operator.options] == ["leaders_only", "Reject"]
    assert re.search(r"`balanced · \w+`.*, \*\*not offered\*\* \|", operator.body)
    assert "segment.bytes is 100000, replica.fetch.max.bytes 1048576" in operator.body
    balanced = next(c for c in world.proposals["candidates"] if c["name"] == "balanced")
    with pytest.raises(AirflowFailException, match="is not for this plan"):
        world.answer(f"balanced · {balanced['digest'][:8]}")
    assert not (world.folder / json_files.DECISION).exists()


def test_where_every_candidate_would_stop_the_approval_fails_and_says_what_to_correct(
    make: Callable[..., World],
) -> None:
    """Topic, brokers, values, where they come from, and the remedy."""
    world = make(LEADERS_EVEN, segment_bytes="100000")
    with pytest.raises(AirflowFailException) as refused:
        world.operator.execute(world.context)
    text = str(refused.value)
    assert text.startswith("ApprovalError: No candidate can be approved (")
    for words in (
        "topic orders, broker ",
        "segment.bytes is 100000, replica.fetch.max.bytes 1048576",
        "(segment.bytes: topic; replica.fetch.max.bytes: default)",
        "Raise segment.bytes to at least replica.fetch.max.bytes",
        "This try of the task had changed nothing in the cluster.",
    ):
        assert words in text


def test_a_candidate_that_failed_has_no_button_and_the_request_shows_its_error_without_a_traceback(
    make: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_for(monkeypatch, "balanced")
    world = make([{**row, "size_bytes": 777} for row in SKEWED])  # plans of the usual ones are kept for all tests
    operator = world.ask()
    assert "balanced" not in [option.split(" · ")[0] for option in operator.options]
    assert operator.options[0].startswith("optimal · ")
    balanced = next(c for c in world.proposals["candidates"] if c["name"] == "balanced")
    with pytest.raises(AirflowFailException, match="is not for this plan"):
        world.answer(f"balanced · {balanced['digest'][:8]}")
    assert "KeyError: " in operator.body
    assert "Traceback" not in operator.body


def test_where_candidates_failed_and_no_other_moves_anything_the_run_does_not_say_that_all_is_well(
    make: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_for(monkeypatch, "balanced", "light")
    world = make([{**row, "size_bytes": 777} for row in EVEN])
    with pytest.raises(AirflowFailException, match=r"Planning of light, balanced failed.* unknown whether .*KeyError"):
        world.operator.execute(world.context)


def fails_for(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Planning of these candidates raises an error."""
    searched = planner.searched

    def broken(problem: Problem, name: str, *rest: Any) -> Any:
        if name in names:
            raise KeyError("<b>orders</b>")
        return searched(problem, name, *rest)

    patch.setattr(planner, "searched", broken)


def test_without_a_policy_a_stopped_plan_is_read_only_like_any_other(make: Callable[..., World]) -> None:
    world = make(LEADERS_EVEN, segment_bytes="100000")
    world.policy_file.unlink()
    snapshot = json_files.read_json(world.folder, json_files.SNAPSHOT)
    json_files.write_json(world.folder, json_files.SNAPSHOT, {**snapshot, "policy": None, "policy_digest": None})
    with pytest.raises(DownstreamTasksSkipped):
        world.operator.execute(world.context)


@pytest.mark.parametrize("state", ["absent", "of another plan"])
def test_a_plan_that_was_not_audited_is_not_offered(make: Callable[..., World], state: str) -> None:
    world = make()
    path = Path(str(world.folder / json_files.SEGMENTS))
    if state == "absent":
        path.unlink()
    else:
        json_files.write_json(world.folder, json_files.PROPOSALS, {**world.proposals, "recommended": "light"})
    with pytest.raises(AirflowFailException, match=r"ArtifactError: .*segments\.json"):
        world.operator.execute(world.context)


@pytest.mark.parametrize("change", [POLICY + "partitions_per_batch: 7\n", None])
def test_a_policy_that_changed_since_the_snapshot_fails_the_approval(
    make: Callable[..., World], change: str | None
) -> None:
    world = make()
    world.ask()
    if change is None:
        world.policy_file.unlink()
    else:
        world.policy_file.write_text(change)
    with pytest.raises(AirflowFailException, match="policy"):
        world.answer(world.option("balanced"))
    assert not (world.folder / json_files.DECISION).exists()


def test_an_approval_is_not_asked_again_once_batches_were_requested(make: Callable[..., World]) -> None:
    world = make()
    json_files.write_json(world.folder, json_files.BATCHES, {"batches": []})
    with pytest.raises(AirflowException, match="Nobody can be asked again"):
        world.operator.execute(world.context)


def test_a_decision_that_was_edited_is_refused(make: Callable[..., World]) -> None:
    world = make()
    world.ask()
    world.answer(world.option("light"))
    path = Path(str(world.folder / json_files.DECISION))
    path.write_text(json.dumps({**world.decision, "throttle_bytes_per_second": 5_000_000}))
    with pytest.raises(ApprovalError, match="is not the decision that was given in Airflow"):
        read_approved(step_inputs(world.dag_run), world.xcom["decision"])


def test_moves_that_were_exchanged_are_refused(make: Callable[..., World]) -> None:
    """Another seed's moves under the approved name: the digest is recomputed from what would run."""
    world = make()
    world.ask()
    world.answer(world.option("balanced"))
    settings = Settings.from_mapping(json_files.read_json(world.folder, json_files.SNAPSHOT)["settings"])
    other = Settings.from_mapping({**settings.to_mapping(), "tolerance": 0.5, "copies_per_broker": 1})
    proposals = (world.folder / json_files.PROPOSALS).read_bytes()
    planner.run(world.folder / "snapshot", world.folder, other)
    (world.folder / json_files.PROPOSALS).write_bytes(proposals)
    with pytest.raises(ArtifactError):
        read_approved(step_inputs(world.dag_run), world.xcom["decision"])
