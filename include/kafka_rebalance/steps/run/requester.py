"""Who asked for what a run is to do: who started it, and where another Dag did so, who had that Dag do it.

A Dag of ours that has Airflow start a rebalance hands the conf on by XCom, which can be edited on its way. So it writes
the conf into its own run's folder as well (handed_on.json), and the rebalance takes nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.folder_owner import FolderOwner, read_folder_owner
from kafka_rebalance.errors import ArtifactError, SettingsError, StorageError
from kafka_rebalance.execution.approval_rules import Requester
from kafka_rebalance.steps.clusters import CANCEL_DAG
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.steps.inputs import StartedRun
from kafka_rebalance.steps.run_folder import RunFolder, file_name, open_own_folder

ASKED_IN = "asked_in"  # a key of the conf: the run that hands it on
REQUESTER = "requester"  # a key of snapshot.json


def requester_of(started: StartedRun, written: Mapping[str, Any]) -> Requester:
    """Who started this run, and who asked for what `written`, the document of its first task, describes."""
    plan_by = written.get("requested_by") or None
    found = written.get(REQUESTER)
    if isinstance(found, Mapping):
        return Requester(started.started_by or None, bool(found["automatic"]), found["plan_by"] or plan_by)
    # Of an earlier version, and of Dags that no other Dag starts.
    return Requester(started.started_by or None, started.kind in _NOBODYS, plan_by)


_NOBODYS = ("scheduled", "operator_triggered", "asset_triggered")
_OPERATORS = "operator_triggered"


def hand_on(folder: RunFolder, conf: Mapping[str, Any], started: StartedRun) -> dict[str, Any]:
    """The conf for the run that Airflow is to start, as `read_handed_on` will find it in this run's folder."""
    whole = {**conf, ASKED_IN: read_folder_owner(folder).to_mapping()}
    automatic = started.kind in _NOBODYS
    name = started.started_by or None
    json_files.write_json(folder, json_files.HANDED_ON, {"conf": whole, "by": name, "automatic": automatic})
    return whole


def read_requester(deployment: Deployment, started: StartedRun) -> Requester:
    """Who asked for this run, told by its first task. Raises SettingsError where another Dag of ours started it, and
    its conf is not the one that was handed on.

    A run that a Dag of somebody else's started without naming a person was started by nobody knows whom: what it is
    to do may have been edited on its way.
    """
    name, kind = started.started_by or None, started.kind
    conf = dict(started.conf)
    if ASKED_IN not in conf:
        return Requester(name, kind in _NOBODYS and kind != _OPERATORS)
    try:
        origin = FolderOwner.from_mapping(conf[ASKED_IN], ASKED_IN)
        run = deployment.runs_root / file_name(origin.connection_id) / file_name(origin.run_id)
        found = json_files.read_json(
            open_own_folder(deployment, str(run / str(origin.attempt)), origin), json_files.HANDED_ON
        )
    except StorageError:
        raise
    except ArtifactError as unreadable:
        raise SettingsError(
            f"The run that this one names in {ASKED_IN} has handed nothing on: {unreadable}"
        ) from unreadable
    if found["conf"] != conf:
        raise SettingsError(
            f"The conf of this run is not the one that run {origin.dag_id}/{origin.run_id} has handed on. Nothing was "
            "written to the cluster. Somebody has edited it on its way. Start a new run."
        )
    is_told = bool(found["automatic"]) or found["by"] is not None
    return Requester(name, kind == _OPERATORS and is_told, found["by"])


def is_way_back(started: StartedRun) -> bool:
    """Whether the run goes back to recorded lists: kafka_rebalance_cancel has handed its conf on.

    To be asked after `read_requester`, which holds the conf against what that Dag's run has written.
    """
    origin = started.conf.get(ASKED_IN)
    return isinstance(origin, Mapping) and origin.get("dag_id") == CANCEL_DAG
