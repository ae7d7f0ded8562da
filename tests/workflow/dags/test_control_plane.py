"""What people and Airflow do to a run at five moments: the table of docs/evidence/interrupted_runs.md, cell by cell.

Airflow's scheduling decisions and its public API are real, the cluster and the workers are simulated: see
control_plane.py. After each act Airflow works on until it has nothing to do, then the janitor comes, then the person
does what the table tells to.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import UnwatchedError
from kafka_rebalance.model.digests import canonical_json
from kafka_rebalance.rebalance.elect_leaders import elect_leaders
from kafka_rebalance.rebalance.verify import record, verify
from kafka_rebalance.throttle.hold_throttle import hold_throttle
from kafka_rebalance.throttle.release_throttle import release_throttle
from kafka_rebalance.workflow.run_step import run_step
from support.airflow.control_plane import DAG, ControlPlane, Moment, Template
from support.runs.janitor_run import tend
from support.runs.rebalance_run import open_lease
from support.runs.simulated_cluster import lease_file

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

BEFORE, APPROVED, IN_FLIGHT, BETWEEN, AFTER = Moment
CLUSTER = "simulated-cluster-0001"


@dataclass(frozen=True)
class Cell:
    """`placed`: how many of the two batches are in place when nothing moves any more, the others being as before.

    `left`: throttle or lock are the janitor's to give back. `then`: what brings the run to its approved end.
    """

    act: str
    moment: Moment
    state: str
    placed: int
    left: bool = False
    says: str = ""
    then: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.act}, {self.moment}"


GO_ON = ("clear hold_throttle",)
KEEP = ("mark approve success",)
ASK = ("answer",)
HELD = "This run is executing its approved plan"
STARTED = "were already started, so it is not made again"
NOT_MOVED = "checks failed; first replicas of"
THROTTLED = "still the rate of this run"
CELLS = [
    # clear, with what follows
    *(Cell(f"clear {task}", BEFORE, "running", 0, then=ASK) for task in ("snapshot", "plan", "approve", "reassign")),
    *(Cell(f"clear {task}", APPROVED, "running", 0, then=ASK) for task in ("snapshot", "render_report", "approve")),
    *(Cell("clear snapshot", moment, "failed", 1, left=True, says=HELD, then=KEEP) for moment in (IN_FLIGHT, BETWEEN)),
    Cell("clear snapshot", AFTER, "failed", 2, left=True, says=HELD, then=KEEP),
    *(Cell("clear plan", moment, "failed", 1, left=True, says=STARTED, then=KEEP) for moment in (IN_FLIGHT, BETWEEN)),
    Cell("clear plan", AFTER, "failed", 2, left=True, says=STARTED, then=KEEP),
    *(Cell("clear render_report", moment, "success", 2) for moment in (IN_FLIGHT, AFTER)),
    *(Cell("clear approve", moment, "success", 2) for moment in (IN_FLIGHT, BETWEEN, AFTER)),
    *(Cell("clear hold_throttle", moment, "success", 2) for moment in (APPROVED, IN_FLIGHT, BETWEEN, AFTER)),
    *(Cell("clear reassign", moment, "success", 2) for moment in (APPROVED, IN_FLIGHT, BETWEEN, AFTER)),
    *(Cell("clear release_throttle", moment, "success", 2) for moment in (IN_FLIGHT, AFTER)),
    *(Cell("clear elect_leaders", moment, "success", 2) for moment in (IN_FLIGHT, AFTER)),
    *(Cell(f"clear {task}", IN_FLIGHT, "success", 2) for task in ("verify", "record")),
    # mark one task
    Cell(
        "mark approve success",
        BEFORE,
        "failed",
        0,
        says="XComNotFound: decision of approve",
        then=("clear approve", *ASK),
    ),
    Cell("mark approve failed", BEFORE, "failed", 0, then=("clear approve", *ASK)),
    Cell("mark approve failed", APPROVED, "failed", 0, then=KEEP),
    *(Cell("mark approve failed", moment, "failed", 2, left=True, then=KEEP) for moment in (IN_FLIGHT, BETWEEN)),
    Cell("mark approve failed", AFTER, "success", 2),
    Cell(
        "mark hold_throttle success", APPROVED, "failed", 0, says="Clear hold_throttle with what follows it", then=GO_ON
    ),
    Cell("mark hold_throttle failed", APPROVED, "failed", 0, says=NOT_MOVED, then=GO_ON),
    *(Cell("mark hold_throttle failed", moment, "failed", 1, left=True, then=GO_ON) for moment in (IN_FLIGHT, BETWEEN)),
    Cell("mark hold_throttle failed", AFTER, "failed", 2, left=True, says=THROTTLED, then=GO_ON),
    *(
        Cell(f"mark reassign {state}", moment, "failed", placed, says=NOT_MOVED, then=GO_ON)
        for state in ("success", "failed")
        for moment, placed in ((APPROVED, 0), (IN_FLIGHT, 1), (BETWEEN, 1))
    ),
    Cell("mark reassign failed", AFTER, "success", 2),
    *(
        Cell(f"mark release_throttle {state}", moment, "failed", 2, left=True, says=THROTTLED, then=GO_ON)
        for state in ("success", "failed")
        for moment in (IN_FLIGHT, AFTER)
    ),
    *(Cell(f"mark elect_leaders {state}", IN_FLIGHT, "success", 2) for state in ("success", "failed")),
    *(
        Cell(f"mark verify {state}", AFTER, "failed", 2, says="did not reach", then=GO_ON)
        for state in ("success", "failed")
    ),
    Cell("mark record failed", AFTER, "failed", 2, then=("clear record",)),
    Cell("mark record success", BEFORE, "running", 0, then=ASK),
    Cell("mark record success", AFTER, "success", 2),
    # what is done and read-only is not asked again
    *(Cell(f"mark {task} failed", BEFORE, "running", 0, then=ASK) for task in ("snapshot", "plan", "render_report")),
    *(Cell(f"mark {task} failed", IN_FLIGHT, "success", 2) for task in ("snapshot", "plan", "render_report")),
    # a task that is marked before it could run is not run, until it is cleared
    *(
        Cell(f"mark {task} success", BEFORE, "running", 0, then=(*ASK, *GO_ON))
        for task in ("hold_throttle", "reassign", "verify")
    ),
    Cell("mark verify success", IN_FLIGHT, "failed", 2, says="did not reach", then=GO_ON),
    # mark or delete the whole run
    *(
        Cell(f"mark run {state}", moment, "success", 0)
        for state in ("success", "failed")
        for moment in (BEFORE, APPROVED)
    ),
    *(
        Cell(f"mark run {state}", moment, "failed", placed, says="Somebody ended the run by hand", then=GO_ON)
        for state in ("success", "failed")
        for moment, placed in ((IN_FLIGHT, 1), (BETWEEN, 1), (AFTER, 2))
    ),
    *(
        Cell("delete", moment, "deleted", placed, left=placed > 0)
        for moment, placed in ((BEFORE, 0), (APPROVED, 0), (IN_FLIGHT, 1), (BETWEEN, 1), (AFTER, 2))
    ),
]


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_an_act_leaves_the_cluster_as_defined_and_a_way_to_the_approved_end(cell: Cell, plane: ControlPlane) -> None:
    plane.moment(cell.moment)
    plane.do(cell.act)
    assert plane.go_on() == cell.state
    assert cell.says in " ".join(plane.said.values())
    assert bool(plane.cluster.leftovers()) == cell.left
    running = plane.in_flight
    alerts = plane.janitor()
    assert bool(alerts) == running, "an alert while copies are in flight that nobody follows, and none else"
    assert plane.placed() == cell.placed
    assert plane.cluster.leftovers() == []
    goes_on = bool(cell.then) and cell.moment is not BETWEEN  # from there it is as from a batch in flight
    for act in cell.then if goes_on else ():
        plane.do(act)
        plane.go_on()
    if goes_on:
        assert plane.state() == "success"
        assert plane.placed() == 2
        assert plane.cluster.leftovers() == []
    assert plane.requested_once()
    assert plane.lifted == []


def test_a_cleared_approval_is_given_again_for_no_digest_but_the_one_that_the_clusters_lock_names(
    plane: ControlPlane,
) -> None:
    plane.moment(IN_FLIGHT)
    lock = plane.cluster.fake.json("/kafka_rebalance/run")
    plane.cluster.fake.put_json("/kafka_rebalance/run", {**lock, "digest": "another"})
    plane.do("clear approve")
    assert plane.go_on() == "failed"
    assert "Nobody can be asked again" in plane.said["approve"]
    assert len(plane.cluster.requests) == 1


def test_a_task_that_succeeded_cannot_be_marked_as_success_again(plane: ControlPlane) -> None:
    plane.moment(BEFORE)
    for task in ("snapshot", "plan", "render_report"):
        with pytest.raises(AssertionError, match="409"):
            plane.do(f"mark {task} success")


# Pausing


@pytest.mark.parametrize("moment", [APPROVED, IN_FLIGHT, BETWEEN, AFTER])
def test_a_paused_dag_ends_its_batch_requests_no_other_and_goes_on_when_it_is_unpaused(
    moment: Moment, plane: ControlPlane
) -> None:
    plane.moment(moment)
    asked = len(plane.cluster.requests)
    held = plane.cluster.throttles()
    plane.do("pause")
    assert plane.go_on() == "running"
    assert not plane.in_flight, "the triggerer goes on"
    assert len(plane.cluster.requests) == asked
    assert plane.cluster.throttles() == held
    plane.do("unpause")
    assert plane.go_on() == "success"
    assert plane.placed() == 2
    assert plane.cluster.leftovers() == []


# Params and policy


def test_the_conf_of_a_run_cannot_be_changed(plane: ControlPlane) -> None:
    plane.moment(BEFORE)
    with pytest.raises(AssertionError, match="422"):
        plane._ask("PATCH", plane._path, {"conf": {"drain": [1]}})


@pytest.mark.parametrize(
    ("moment", "state", "placed"),
    [
        (BEFORE, "failed", 0),
        (APPROVED, "failed", 0),
        (IN_FLIGHT, "failed", 1),
        (BETWEEN, "failed", 1),
        (AFTER, "success", 2),
    ],
)
def test_a_policy_that_changes_lets_a_batch_end_and_none_begin(
    moment: Moment, state: str, placed: int, plane: ControlPlane
) -> None:
    plane.moment(moment)
    policy = plane.run.policy_file.read_text()
    plane.run.policy_file.write_text(policy + "copies_per_broker: 3\n")
    if moment is BEFORE:
        plane.do("answer")
    assert plane.go_on() == state
    assert plane.placed() == placed
    assert plane.cluster.leftovers() == []
    if state == "failed":
        assert "policy" in " ".join(plane.said.values())
        plane.run.policy_file.write_text(policy)
        plane.do("clear approve" if moment is BEFORE else "clear hold_throttle")
        if moment is BEFORE:
            plane.do("answer")
        assert plane.go_on() == "success"
    assert plane.requested_once()


# Another version


@pytest.mark.parametrize(
    "written",
    [
        lambda arguments: {key: arguments[key] for key in ("connection_id", "run_folder", "candidate", "batch")},
        lambda arguments: {**arguments, "colour": "blue", "later": {"a": [1]}},
    ],
    ids=["fewer", "more"],
)
def test_a_trigger_that_another_version_serialised_follows_its_batch(
    written: Callable[[dict[str, Any]], dict[str, Any]], plane: ControlPlane
) -> None:
    plane.moment(IN_FLIGHT)
    plane.reserialise = written
    assert plane.go_on() == "success"
    assert plane.said == {}
    assert plane.requested_once()


def rewrite(plane: ControlPlane, name: str, **more: Any) -> None:
    """As another version would have written the file."""
    folder, file = plane.run.folder, name
    if name == json_files.LEASES:
        latest = lease_file(plane.run.folder.parents[2])
        folder, file = latest.parent, latest.name
    path = folder / file
    document = json.loads(path.read_bytes()) if path.exists() else {}
    path.write_bytes(canonical_json({**document, **more}))


@pytest.mark.parametrize("moment", [IN_FLIGHT, BETWEEN])
@pytest.mark.parametrize(
    "name",
    [
        json_files.DECISION,
        json_files.SNAPSHOT,
        json_files.PROPOSALS,
        json_files.BATCHES,
        json_files.CONTROL,
        json_files.LEFT_OUT,
        json_files.LEASES,
    ],
)
def test_with_a_file_of_an_unknown_major_version_the_batch_in_flight_ends_and_no_more_is_written(
    name: str, moment: Moment, plane: ControlPlane
) -> None:
    plane.moment(moment)
    rewrite(plane, name, format_version=7)
    elections = [path for _, path in plane.cluster.fake.writes if "election" in path]
    assert plane.go_on() == "failed"
    assert "has format_version 7" in " ".join(plane.said.values())
    if name == json_files.LEASES:
        with pytest.raises(UnwatchedError, match="leaves this cluster's throttle and lock alone"):
            tend()
        rewrite(plane, name, format_version=1)  # by the version that is deployed again
    plane.janitor()
    assert len(plane.cluster.requests) == 1
    assert [path for _, path in plane.cluster.fake.writes if "election" in path] == elections
    assert plane.placed() == 1
    assert plane.cluster.leftovers() == []
    assert plane.lifted == []


@pytest.mark.parametrize("name", [json_files.SNAPSHOT, json_files.BATCHES, json_files.CONTROL, json_files.LEASES])
def test_what_a_later_minor_version_adds_is_passed_over(name: str, plane: ControlPlane) -> None:
    plane.moment(IN_FLIGHT)
    rewrite(plane, name, format_version=1, format_minor=3, added_later={"a": 1})
    if name == json_files.SNAPSHOT:  # written before the approval, which has its digest
        plane.run.approve_within()
    assert plane.go_on() == "success"
    assert plane.placed() == 2
    assert plane.cluster.leftovers() == []


# Backfill


@pytest.mark.parametrize("dag_id", [DAG, "kafka_balance_check", "kafka_throttle_janitor", "kafka_topics"])
def test_a_backfill_is_refused(
    dag_id: str, client: TestClient, login: dict[str, dict[str, str]], template: Template
) -> None:
    asked = {"dag_id": dag_id, "from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-03T00:00:00Z"}
    reply = client.post("/api/v2/backfills", json=asked, headers=login["admin"])
    assert reply.status_code in (400, 409, 422), reply.text
    runs = client.get(f"/api/v2/dags/{dag_id}/dagRuns", params={"run_type": "backfill"}, headers=login["admin"])
    assert runs.json()["total_entries"] == 0


# Two of each


def test_a_task_that_is_started_twice_does_its_work_once(plane: ControlPlane) -> None:
    """As by two schedulers, or as a retry of what had been done already."""
    plane.moment(APPROVED)
    decision, dag_run = plane.run.decision, plane.run.dag_run
    for _ in range(2):
        run_step(hold_throttle, dag_run, decision)
    for number in (1, 2):
        assert plane.run.request() == number
        held = plane.cluster.throttles()
        assert plane.run.request() == number
        assert plane.cluster.throttles() == held
        plane.cluster.controller.run()
    for _ in range(2):
        assert plane.run.request() is None
        assert run_step(elect_leaders, dag_run, decision) == []
    for _ in range(2):
        run_step(release_throttle, dag_run, decision)
    for _ in range(2):
        run_step(verify, dag_run, decision)
        run_step(record, dag_run, decision)
    assert len(plane.cluster.requests) == 2
    assert plane.cluster.leftovers() == []
    assert open_lease(CLUSTER) is None
