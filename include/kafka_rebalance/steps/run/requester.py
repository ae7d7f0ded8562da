"""Who asked for a run: the person who started it, or the person behind the Dag that started it.

A Dag of ours that starts a rebalance passes the conf through XCom, where people can edit it. So the Dag also writes the
conf into its own run's folder (handed_on.json), and the rebalance accepts no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.folder_owner import FolderOwner, read_folder_owner
from kafka_rebalance.errors import ArtifactError, SettingsError, StorageError
from kafka_rebalance.execution.approval_rules import Requester
from kafka_rebalance.steps.clusters import CANCEL_DAG, CHECK_DAG
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.steps.inputs import StartedRun
from kafka_rebalance.steps.run_folder import RunFolder, folder_of_run, open_own_folder

ASKED_IN = "asked_in"  # a key of the conf: the run that passes it on
REQUESTER = "requester"  # a key of snapshot.json


def requester_of(started: StartedRun, written: Mapping[str, Any]) -> Requester:
    """Who started this run, and who asked for the plan in `written`, the document of its first task."""
    plan_by = written.get("requested_by") or None
    found = written.get(REQUESTER)
    if isinstance(found, Mapping):
        return Requester(started.started_by or None, bool(found["automatic"]), found["plan_by"] or plan_by)
    # Of an earlier version, and of Dags that no other Dag starts.
    return Requester(started.started_by or None, started.kind in _NOBODYS, plan_by)


_OPERATORS = "operator_triggered"
_NOBODYS = ("scheduled", _OPERATORS, "asset_triggered")  # run types that no person starts


def hand_on(folder: RunFolder, conf: Mapping[str, Any], started: StartedRun) -> dict[str, Any]:
    """The conf for the run that Airflow is to start, also written into this run's folder for `read_requester`."""
    whole = {**conf, ASKED_IN: asdict(read_folder_owner(folder))}
    handed_on = {"conf": whole, "by": started.started_by or None, "automatic": started.kind in _NOBODYS}
    json_files.write_json(folder, json_files.HANDED_ON, handed_on)
    return whole


def read_requester(deployment: Deployment, started: StartedRun) -> Requester:
    """Who asked for this run, for its first task. Raises SettingsError if another Dag of ours started it, and its conf
    is not the one in handed_on.json.

    If a Dag that is not ours started the run and names no person, the requester is unknown: somebody may have edited
    the conf.
    """
    name, kind = started.started_by or None, started.kind
    conf = dict(started.conf)
    if ASKED_IN not in conf:
        return Requester(name, kind in _NOBODYS and kind != _OPERATORS)
    try:
        origin = FolderOwner.from_mapping(conf[ASKED_IN], ASKED_IN)
        folder = folder_of_run(deployment, origin.connection_id, origin.run_id) / str(origin.attempt)
        found = json_files.read_json(open_own_folder(deployment, str(folder), origin), json_files.HANDED_ON)
    except StorageError:
        raise
    except ArtifactError as unreadable:
        raise SettingsError(
            f"The run that {ASKED_IN} of this conf names has passed nothing on: {unreadable}"
        ) from unreadable
    if found["conf"] != conf:
        raise SettingsError(
            f"The conf of this run is not the one that run {origin.dag_id}/{origin.run_id} passed on. Nothing was "
            "written to the cluster. Somebody has edited the conf. Start a new run."
        )
    is_told = bool(found["automatic"]) or found["by"] is not None
    return Requester(name, kind == _OPERATORS and is_told, found["by"])


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
