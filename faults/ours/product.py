"""The steps that Airflow's worker and triggerer would run, one function for each process.

The functions call the tasks' own functions, operators and triggers. They replace only what Airflow does around them:
XCom, the answer to the approval, and the messages between worker, scheduler and triggerer, which are files here.
The server that forks the processes imports this module once, because importing Airflow takes seconds.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import json
import logging
import os
import signal
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# Tasks import these clients and rooms when they run. The server imports them once, here.
import confluent_kafka.admin  # noqa: F401
import kafka.admin  # noqa: F401
import psutil
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from faults.ours.clock import CLOCK_VARIABLE, shift_clock
from faults.ours.environment import CONNECTION
from kafka_rebalance.dags import kafka_log_dirs_dag, kafka_rebalance_dag
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.proposals import PROPOSALS_FILE
from kafka_rebalance.documents.snapshot import read_settings
from kafka_rebalance.log_dirs import copies, rate
from kafka_rebalance.log_dirs.plan import plan_moves
from kafka_rebalance.log_dirs.rate import release_rate
from kafka_rebalance.planning import planner
from kafka_rebalance.rebalance import report
from kafka_rebalance.rebalance.elect_leaders import elect_leaders
from kafka_rebalance.rebalance.request import offered_digests, stopped_candidates
from kafka_rebalance.rebalance.snapshot import take_snapshot
from kafka_rebalance.rebalance.verify import record, verify
from kafka_rebalance.run import ledger, snapshot_reader
from kafka_rebalance.segments import audit_io
from kafka_rebalance.throttle.janitor import look_after_cluster
from kafka_rebalance.throttle.release_throttle import release_throttle
from kafka_rebalance.workflow import triggers  # noqa: F401
from kafka_rebalance.workflow.operators.moves import (
    HoldThrottleOperator,
    MoveLogDirsOperator,
    MovesOperator,
    ReassignOperator,
)
from kafka_rebalance.workflow.run_step import run_step

POLL_SECONDS = 0.3
STALL_SECONDS = 120.0

JANITORS_RUN = SimpleNamespace(
    dag_id="kafka_throttle_janitor", run_id="now", triggering_user_name=None, run_type="scheduled"
)

State = dict[str, Any]  # dag_id, run_id and params, later also decision


def run(
    step: str, state: State, outcome: str, environment: Mapping[str, str], killed: Mapping[str, Any] | None
) -> None:
    """Runs one step in its own process. Writes the whole outcome to a file, or nothing if the process is killed."""
    os.environ.update(environment)
    path = Path(outcome)
    logging.basicConfig(filename=path.with_suffix(".log"), level=logging.INFO, force=True)
    with path.with_suffix(".out").open("a", encoding="utf-8") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    shift_clock(int(environment.get(CLOCK_VARIABLE, 0)))
    if killed is not None:
        _kill_later(**killed)
    this = psutil.Process()
    before = _held(this)
    document = _outcome(lambda: STEPS[step](state))
    document["left"] = {name: held - before[name] for name, held in _held(this).items()}
    if "error" in document:
        logging.error("%s", document["trace"])
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(document), encoding="utf-8")
    draft.replace(path)


def _held(process: psutil.Process) -> dict[str, int]:
    """What a step must give back before it ends. A client that nobody refers to any more counts as given back."""
    gc.collect()
    return {"descriptors": process.num_fds(), "threads": process.num_threads()}


def _outcome(call: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"state": "done", "value": _as_xcom(call())}
    except TaskDeferred as deferred:
        path, arguments = deferred.trigger.serialize()
        return {"state": "deferred", "trigger": path, "arguments": arguments, "method": deferred.method_name}
    except AirflowFailException as final:
        return {"state": "failed", "error": str(final), "trace": traceback.format_exc()}
    except BaseException as error:  # Airflow would try the task again
        return {"state": "retry", "error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}


def _as_xcom(value: Any) -> Any:
    """The value as JSON, as Airflow hands it on. If it is no JSON, TypeError fails the task, not the process."""
    return json.loads(json.dumps(value))


def _kill_later(seconds: float, writes: int, to: str = "a cluster") -> None:
    """kill -9 this process `seconds` after it hands its n-th write to a client or to a file, answered or not.

    n is `writes`; a transaction is one write, of ZooKeeper or of the lock's log. `to` is a key of the table below.
    """
    from kazoo.client import KazooClient, TransactionRequest

    from kafka_rebalance.admin.cluster_lock import TransactionLog
    from kafka_rebalance.admin.wire import Wire

    left = [writes]

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            answer = write(*args, **kwargs)
            left[0] -= 1
            if not left[0]:
                time.sleep(seconds)
                kill()
            return answer

        return call

    by_zookeeper = [(KazooClient, name) for name in ("create_async", "set_async", "delete_async")]
    counts: dict[str, list[tuple[Any, str]]] = {
        "a cluster": [
            *by_zookeeper,
            (TransactionRequest, "commit_async"),
            (TransactionLog, "_append"),
            (Wire, "write"),
        ],
        "brokers": [(Wire, "write")],
        "the lock": [(rate, "take_lock")],
        "files": [(json_files, "write_whole"), (ledger, "write_whole")],
    }
    for owner, name in counts[to]:
        setattr(owner, name, counted(getattr(owner, name)))


def _dag_run(state: State) -> Any:
    return SimpleNamespace(
        dag_id=state["dag_id"], run_id=state["run_id"], triggering_user_name="olive", run_type="manual"
    )


def read_retries(state: State) -> dict[str, dict[str, int]]:
    """{dag id: {task id: retries}} of the Dags."""
    dags = kafka_rebalance_dag.DAG, kafka_log_dirs_dag.DAG
    return {dag.dag_id: {task.task_id: int(task.retries) for task in dag.tasks} for dag in dags}


def approve_plan(state: State) -> dict[str, Any]:
    """Takes the snapshot, plans, writes the files of `render_report` without its pages, and approves.

    Returns the decision. The approved candidate is the given plan.
    """
    xcom: dict[str, Any] = {}
    # Other tests look for election storms. Here that look would cost two seconds in each case.
    snapshot_reader.STORM_PAUSE_SECONDS = 0.1
    params = {"kafka_conn_id": CONNECTION, **state["params"]}
    run_step(take_snapshot, _dag_run(state), params, ti=SimpleNamespace(xcom_push=xcom.__setitem__))
    folder = Path(xcom["run_folder"])
    settings = read_settings(folder)
    planner.run(folder / json_files.SNAPSHOT_FOLDER, folder, settings)
    report.write_reassignments(folder)
    audit_io.write_audit(folder, None)
    proposals, digest = PROPOSALS_FILE.read_with_digest(folder)
    chosen = {
        "choice": "given",
        "digest": offered_digests(proposals, stopped_candidates(folder, digest))["given"],
        "snapshot_digest": proposals.snapshot_digest,
        "throttle_bytes_per_second": state["bytes_per_second"],
    }
    if (lowest := state["params"].get("throttle_from_bytes_per_second")) is not None:
        chosen["throttle_from_bytes_per_second"] = lowest
    return _approved(xcom, json_files.read_json(folder, json_files.SNAPSHOT), chosen)


def approve_log_dirs(state: State) -> dict[str, Any]:
    """Plans moves between log dirs and approves them; returns the decision."""
    xcom: dict[str, Any] = {}
    snapshot_reader.STORM_PAUSE_SECONDS = 0.1
    params = {"kafka_conn_id": CONNECTION, **state["params"]}
    run_step(plan_moves, _dag_run(state), params, ti=SimpleNamespace(xcom_push=xcom.__setitem__))
    planned = json_files.read_json(Path(xcom["run_folder"]), json_files.LOG_DIRS)
    return _approved(xcom, planned, {"choice": "balance", "digest": planned["digest"]})


def _approved(xcom: Mapping[str, Any], shown: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Writes decision.json; returns what `approve` hands on. `shown`: the document with the time and the policy."""
    decision = {
        **chosen,
        "policy_digest": shown["policy_digest"],
        "approved_by": {"id": "uma", "name": "uma"},
        "approved_at": shown["observed_at"],
        "note": "",
    }
    return {
        "choice": chosen["choice"],
        "digest": chosen["digest"],
        "decision_digest": json_files.write_json(Path(xcom["run_folder"]), json_files.DECISION, decision),
        "run_folder": xcom["run_folder"],
        "nonce": xcom["nonce"],
    }


def _operator(state: State) -> MovesOperator:
    given = {"decision": state["decision"], "stay_seconds": state["stay_seconds"], "stall_seconds": STALL_SECONDS}
    if state["dag_id"] == "kafka_log_dirs":
        return MoveLogDirsOperator(task_id="move", **given)
    return ReassignOperator(task_id="reassign", poll_seconds=POLL_SECONDS, **given)


def _context(state: State) -> Any:
    return {"dag_run": _dag_run(state), "run_id": state["run_id"]}


def follow(state: State) -> dict[str, Any]:
    """Runs the trigger as the triggerer does, until it fires; returns the event's payload."""
    module, _, name = state["trigger"].rpartition(".")
    trigger = getattr(importlib.import_module(module), name)(**state["arguments"])

    async def fire() -> dict[str, Any]:
        async for event in trigger.run():
            return dict(event.payload)
        raise RuntimeError("the trigger ended without an event")

    return asyncio.run(fire())


def tend(state: State) -> dict[str, Any]:
    """One look of the janitor. Airflow tells it that the run has failed."""
    RuntimeTaskInstance.get_dagrun_state = staticmethod(lambda dag_id, run_id: "failed")  # type: ignore[method-assign]
    look_after_cluster.WATCH_SECONDS = 0
    given: dict[str, Any] = {"kafka_conn_id": CONNECTION, "clean": [], "break_lock": None}
    return run_step(look_after_cluster.look_after_cluster, JANITORS_RUN, CONNECTION, given)


def _hold(task: str) -> Callable[[State], Any]:
    hold = {"hold": kafka_log_dirs_dag.HOLD} if task == "hold_rate" else {}
    return lambda state: HoldThrottleOperator(task_id=task, decision=state["decision"], **hold).execute(_context(state))


def _move(state: State) -> Any:
    return _operator(state).execute(_context(state))


def _step(step: Callable[..., Any]) -> Callable[[State], Any]:
    return lambda state: run_step(step, _dag_run(state), state["decision"])


STEPS: dict[str, Callable[[State], Any]] = {
    "read_retries": read_retries,
    "approve_plan": approve_plan,
    "hold_throttle": _hold("hold_throttle"),
    "reassign": _move,
    "resume": lambda state: getattr(_operator(state), state["method"])(_context(state), state["event"]),
    "follow": follow,
    "elect_leaders": _step(elect_leaders),
    "release_throttle": _step(release_throttle),
    "verify": lambda state: _step(verify if state["dag_id"] == "kafka_rebalance" else copies.verify)(state),
    "tend": tend,
    "record": _step(record),
    "approve_log_dirs": approve_log_dirs,
    "hold_rate": _hold("hold_rate"),
    "move": _move,
    "release_rate": _step(release_rate),
}
