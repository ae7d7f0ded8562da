"""`make demo`: one approved rebalance of a skewed cluster with two empty brokers, and its result.

`APPROVE=ui` waits for a person in the browser (the default on a terminal). With `APPROVE=auto` a second user approves
the recommended candidate through the API. `KEEP=1` leaves everything running until Ctrl-C, and keeps the folder.
`VERSION=4.4.0` runs it without ZooKeeper, and so does `KRAFT=1` with a version that has both.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from demo.local_airflow import LocalAirflow
from demo.runs import DagRun, set_variable, trigger, wait_for_dag
from demo.settings import APPROVER, CONNECTION, DATA_BYTES, POLICIES, REQUESTER, THROTTLE, TOLERANCE
from demo.tables import broker_table, check_lines, move_lines
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import DEFAULT_VERSION, KRAFT_VERSIONS, VERSIONS
from kafka_rebalance.local_cluster.scenarios import SCENARIOS
from kafka_rebalance.model.amounts_in_words import bytes_in_words
from kafka_rebalance.run.approval_rules import REJECT

WAIT_FOR_A_PERSON_SECONDS = 3600
CHECK_SECONDS = 180


def main() -> int:
    approve = os.environ.get("APPROVE") or ("ui" if sys.stdin.isatty() else "auto")
    if approve not in ("ui", "auto"):
        print(f"APPROVE={approve} is unknown. Nothing was started. Use ui or auto.", file=sys.stderr)
        return 2
    version, known = os.environ.get("VERSION") or DEFAULT_VERSION, (*VERSIONS, *KRAFT_VERSIONS)
    if version not in known:
        shown = ", ".join(dict.fromkeys(known))
        print(f"VERSION={version} is unknown. Nothing was started. Use one of {shown}.", file=sys.stderr)
        return 2
    kraft = os.environ.get("KRAFT") == "1"
    if version not in (KRAFT_VERSIONS if kraft else known):
        print(f"KRAFT=1 needs one of {', '.join(KRAFT_VERSIONS)}. Nothing was started.", file=sys.stderr)
        return 2
    keep = os.environ.get("KEEP") == "1"
    folder = Path(tempfile.mkdtemp(prefix="kafka-rebalance-demo-"))
    try:
        with ExitStack() as stack:
            kraft = kraft or version not in VERSIONS
            airflow, state = _rebalance(stack, folder, approve, version, kraft=kraft, keep=keep)
            if keep:
                print(f"\nStill running: Airflow at {airflow.url}. Files are in {folder}. Ctrl-C ends it.")
                with suppress(KeyboardInterrupt):
                    signal.pause()
        return 0 if state == "success" else 1
    except KeyboardInterrupt:
        print("\nInterrupted. All processes have ended.", file=sys.stderr)
        return 130
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _rebalance(
    stack: ExitStack, folder: Path, approve: str, version: str, *, kraft: bool, keep: bool
) -> tuple[LocalAirflow, str]:
    """The Airflow that ran the rebalance, and the state in which the run ended."""
    servers = "4 brokers, three of them controllers too," if kraft else "ZooKeeper and 4 brokers"
    with step(f"starting {servers} in 3 racks (Kafka {version})"):
        cluster = LocalCluster(version=version, brokers=4, racks=3, kraft=kraft, folder=folder / "kafka")
        stack.enter_context(cluster)
    airflow = LocalAirflow(folder / "airflow", connections={CONNECTION: _connection(cluster)})
    airflow.write_policy(CONNECTION, (POLICIES / f"{CONNECTION}.yaml").read_text())
    stack.callback(airflow.stop)
    with ThreadPoolExecutor(2) as pool, step("producing skewed data, adding 2 empty brokers, starting Airflow"):
        starting = pool.submit(airflow.start)
        SCENARIOS["new_empty_brokers"](cluster, total_bytes=DATA_BYTES)
        starting.result()
    requester, approver = airflow.login(REQUESTER), airflow.login(APPROVER)
    with step("waiting until Airflow has read the Dag"):
        wait_for_dag(requester, "kafka_rebalance")
    run = trigger(
        requester,
        "kafka_rebalance",
        {"kafka_conn_id": CONNECTION, "reason": "Demo: two empty brokers were added", "tolerance": TOLERANCE},
    )
    print(f"triggered kafka_rebalance as {REQUESTER}: {run.run_id}")
    print(f"  {airflow.url}{run.page}   user {REQUESTER}, password {REQUESTER}")
    with step("snapshot and plan (PySpark)") as tick:
        request = run.wait_for_request(each_poll=lambda: tick(_active(run)))
    print(f"  {request['subject']}")
    # Not before: a check of a cluster without an open run would start a rebalance of its own.
    set_variable(requester, "kafka_rebalance_clusters", json.dumps([CONNECTION]))
    _check(requester, airflow)
    print(f"  {airflow.url}/plugin/kafka-balance shows the cluster")
    if approve == "ui" or keep:  # otherwise nobody looks at what it reports
        wait_for_dag(requester, "kafka_throttle_janitor")
    _approve(run, run.seen_by(approver), request, approve, airflow.url)
    begun = time.monotonic()
    with step("moving replicas") as tick:
        state = run.wait_for_end(timeout=600, each_poll=lambda: tick(_progress(run) or _active(run)))
    _tell(run, state, time.monotonic() - begun)
    _check(requester, airflow)
    return airflow, state


def _check(client: httpx.Client, airflow: LocalAirflow) -> None:
    """Runs the nightly check once, as if it were night."""
    with step("running kafka_balance_check"):
        wait_for_dag(client, "kafka_balance_check")
        check = trigger(client, "kafka_balance_check", {})
        state = check.wait_for_end(timeout=CHECK_SECONDS)
    if state != "success":
        print(check.failures(), file=sys.stderr)
        return
    newest = max(airflow.runs.glob(f"{CONNECTION}/*/*/verdict.json"), key=lambda path: path.stat().st_mtime)
    print(f"  {(_read(newest) or {}).get('text')}")


def _connection(cluster: LocalCluster) -> dict[str, Any]:
    if cluster.kraft:
        return {"conn_type": "kafka_admin_api", "host": cluster.bootstrap_servers}
    extra = {"bootstrap_servers": cluster.bootstrap_servers}
    return {"conn_type": "kafka_zookeeper", "host": cluster.zookeeper, "extra": extra}


def _approve(run: DagRun, approver: DagRun, request: dict[str, Any], approve: str, url: str) -> None:
    options = request["options"]
    if approve == "ui":
        print(f"\nThe run waits for your approval: {url}{run.page}/tasks/approve/required_actions")
        print(f"  Log in as {APPROVER}, password {APPROVER}. {REQUESTER} started the run and may not approve it.")
        print(f"  options: {', '.join(options)}")
        run.wait(
            lambda: run.tasks().get("approve") != "awaiting_input",
            timeout=WAIT_FOR_A_PERSON_SECONDS,
            what="somebody answers the approval",
        )
        return
    choice = recommended_option(options, _read(run.folder() / "proposals.json") or {})
    reply = approver.answer(choice, throttle_bytes_per_second=THROTTLE, note="Approved by make demo")
    reply.raise_for_status()
    print(f"answered by {APPROVER}: {choice}")


def recommended_option(options: Sequence[str], proposals: Mapping[str, Any]) -> str:
    """The request's option for the recommended candidate, or Reject if none is recommended."""
    best = proposals.get("recommended")
    return next((option for option in options if best and option.startswith(f"{best} · ")), REJECT)


def _tell(run: DagRun, state: str, seconds: float) -> None:
    folder = run.folder()
    decision = _read(folder / "decision.json") or {}
    choice = decision.get("choice")
    if choice in (None, REJECT):
        print(f"\nThe run ended as {state}. The answer was {choice}. Nothing was written to the cluster.")
        return
    print("\nBrokers before and after")
    print(broker_table(folder, choice))
    print("\nWhat moved")
    print("\n".join(move_lines(folder, choice)))
    print(f"\nThe run ended as {state}, {seconds:.0f} s after the approval")
    verification = _read(folder / "verification.json")
    print("\nVerification")
    print("\n".join(check_lines(verification)) if verification else "  not verified")
    if state != "success":
        for task, ended in run.tasks().items():
            if ended == "failed":
                print(f"\n{task} failed:\n{run.log(task)[-3000:]}", file=sys.stderr)


def _active(run: DagRun) -> str:
    """The tasks that are at work now."""
    busy = [task for task, state in run.tasks().items() if state in ("running", "queued", "deferred", "up_for_retry")]
    return ", ".join(busy)


def _progress(run: DagRun) -> str:
    """One line of progress.json, from the first batch on."""
    progress = _read(run.folder() / "progress.json")
    if not progress or progress["partitions_done"] == progress["partitions_total"]:
        return ""
    done, total = bytes_in_words(progress["bytes_copied"]), bytes_in_words(progress["bytes_total"])
    return (
        f"batch {progress['batch']} of {progress['batches']}: {progress['partitions_done']} of "
        f"{progress['partitions_total']} partitions, {done} of {total}"
    )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return content


@contextmanager
def step(text: str) -> Iterator[Callable[[str], None]]:
    """Prints a step, what it is doing whenever that changes, and its time. Yields the function that is told what."""
    print(f"{text} …", flush=True)
    begun, last = time.monotonic(), ""

    def tick(what: str) -> None:
        nonlocal last
        if what and what != last:
            print(f"  {time.monotonic() - begun:5.1f} s  {what}", flush=True)
            last = what

    yield tick
    print(f"  {time.monotonic() - begun:5.1f} s  done", flush=True)


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
