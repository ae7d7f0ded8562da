"""Who asked for a run: the person who started it, or the person behind the Dag that started it.

A Dag of ours that starts a rebalance passes the conf through XCom, where people can edit it. So the Dag also writes the
conf into its own run's folder (handed_on.json), and the rebalance accepts no other.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from kafka_rebalance.documents.folder_owner import FolderOwner, read_folder_owner
from kafka_rebalance.documents.json_files import HANDED_ON, JsonFile, decode
from kafka_rebalance.errors import ArtifactError, SettingsError, StorageError
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.run.approval_rules import Requester, check_approvers
from kafka_rebalance.run.clusters import CANCEL_DAG, CHECK_DAG, REBALANCE_DAG
from kafka_rebalance.run.inputs import Deployment, StartedRun
from kafka_rebalance.run.run_folder import RunFolder, folder_of_run, open_own_folder

log = logging.getLogger(__name__)

ASKED_IN = "asked_in"  # a key of the conf: the run that passes it on


def requester_of(deployment: Deployment, started: StartedRun, named: str | None) -> Requester:
    """Who asked for this run, of any Dag of ours. `named`: who did by the document of its first task.

    It asks Airflow and the run that passed the conf on, as the first task has done. People can edit files of the runs
    folder, so the document can only name one more person who may not approve. Errors as in `read_requester`.
    """
    requester = read_requester(deployment, started)
    return replace(requester, plan_by=requester.plan_by or named or None)


def check_somebody_may_approve(policy: Policy | None, requester: Requester) -> None:
    """For a run's first task, so that nobody plans for nothing. Raises ApprovalError if all approvers are requesters.

    `policy` is None if the run asks nobody. A run whose starter is unknown may still plan: another Dag may start it for
    its report.
    """
    if policy is None:
        return
    if requester.unknown and not policy.requester_may_approve:
        log.warning(
            "Airflow does not know who started this run, so nobody may approve what it plans. To carry it out, let a "
            "person start the run."
        )
        return
    check_approvers(policy, requester)


def with_own_request(policy: Policy, requester: Requester, started: StartedRun) -> Policy:
    """The policy by which approvals of an action count that only stops a run: an approver's own request is one.

    Airflow must know that this person has started the run by hand. Otherwise it is the policy as it is.
    """
    by_hand = started.kind == "manual" and requester.plan_by in (None, requester.name)
    asked_by_approver = by_hand and requester.name in {person.name for person in policy.approvers}
    if not asked_by_approver or policy.cancel_needs_another_approver:
        return policy
    return replace(policy, requester_may_approve=True)


@dataclass(frozen=True, slots=True)
class HandedOn:
    """The conf of another Dag's run that this run starts, and who stands behind it."""

    conf: Mapping[str, Any]
    by: str | None
    automatic: bool  # no person started this run


HANDED_ON_FILE = JsonFile(HANDED_ON, HandedOn)
_OPERATORS = "operator_triggered"
_NOBODYS = ("scheduled", _OPERATORS, "asset_triggered")  # run types that no person starts


def hand_on(folder: RunFolder, conf: Mapping[str, Any], started: StartedRun) -> dict[str, Any]:
    """The conf for the run that Airflow is to start, also written into this run's folder for `read_requester`."""
    whole = {**conf, ASKED_IN: asdict(read_folder_owner(folder))}
    HANDED_ON_FILE.write(folder, HandedOn(whole, started.started_by or None, started.kind in _NOBODYS))
    return whole


def read_requester(deployment: Deployment, started: StartedRun) -> Requester:
    """Who asked for this run, as Airflow and the run's conf say. Raises SettingsError if another Dag of ours started it
    and the conf is not the one in handed_on.json.

    If a Dag that is not ours started the run and names no person, the requester is unknown: anybody may have put the
    run there. Our Dags start runs of kafka_rebalance alone.
    """
    name, kind = started.started_by or None, started.kind
    conf = dict(started.conf)
    if ASKED_IN not in conf or started.dag_id != REBALANCE_DAG:
        return Requester(name, kind in _NOBODYS and kind != _OPERATORS)
    try:
        origin = decode(FolderOwner, conf[ASKED_IN], ASKED_IN)
        folder = folder_of_run(deployment, origin.connection_id, origin.run_id) / str(origin.attempt)
        handed_on = HANDED_ON_FILE.read(open_own_folder(deployment, str(folder), origin))
    except StorageError:
        raise
    except ArtifactError as unreadable:
        raise SettingsError(
            f"The run that {ASKED_IN} of this conf names has passed nothing on: {unreadable}"
        ) from unreadable
    if handed_on.conf != conf:
        raise SettingsError(
            f"The conf of this run is not the one that run {origin.dag_id}/{origin.run_id} passed on. Nothing was "
            "written to the cluster. Somebody has edited the conf. Start a new run."
        )
    is_told = handed_on.automatic or handed_on.by is not None
    return Requester(name, kind == _OPERATORS and is_told, handed_on.by)


def is_way_back(started: StartedRun) -> bool:
    """Whether the run goes back to recorded lists: kafka_rebalance_cancel passed its conf on.

    Call it after `read_requester`, which checks the conf.
    """
    return _asked_in(started) == CANCEL_DAG


def is_nightly_proposal(started: StartedRun) -> bool:
    """Whether the nightly check passed its conf on. Call it after `read_requester`, which checks the conf."""
    return _asked_in(started) == CHECK_DAG


def _asked_in(started: StartedRun) -> str | None:
    """The Dag whose run has passed this run's conf on; None if a person started the run."""
    origin = started.conf.get(ASKED_IN)
    return origin.get("dag_id") if isinstance(origin, Mapping) else None
