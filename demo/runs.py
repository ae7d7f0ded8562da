"""Starts one Dag run through Airflow's public API, answers its approval and follows it to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from demo.local_airflow import SUPERVISOR_INTERVAL_SECONDS

POLL_SECONDS = 0.5
HEARD_AFTER_SECONDS = 3 * SUPERVISOR_INTERVAL_SECONDS
ENDED = ("success", "failed")


@dataclass(frozen=True, slots=True)
class DagRun:
    """A run of one Dag, as one logged-in user sees it."""

    client: httpx.Client
    dag_id: str
    run_id: str

    @property
    def path(self) -> str:
        return f"/api/v2/dags/{self.dag_id}/dagRuns/{quote(self.run_id, safe='')}"

    @property
    def page(self) -> str:
        """The run in Airflow's web interface."""
        return f"/dags/{self.dag_id}/runs/{quote(self.run_id, safe='')}"

    def seen_by(self, client: httpx.Client) -> DagRun:
        """The same run, through another user's login."""
        return DagRun(client, self.dag_id, self.run_id)

    def state(self) -> str:
        return str(_get(self.client, self.path)["state"])

    def tasks(self) -> dict[str, str | None]:
        """{task id: state}."""
        instances = _get(self.client, f"{self.path}/taskInstances")["task_instances"]
        return {instance["task_id"]: instance["state"] for instance in instances}

    def xcom(self, task_id: str, key: str) -> Any:
        return _get(self.client, f"{self.path}/taskInstances/{task_id}/xcomEntries/{key}")["value"]

    def folder(self, task_id: str = "snapshot") -> Path:
        """The run's folder, as its first task says. Here it is a local folder."""
        return Path(self.xcom(task_id, "run_folder"))

    def log(self, task_id: str, try_number: int = 1) -> str:
        """The messages of a task's log, one on each line."""
        content = _get(self.client, f"{self.path}/taskInstances/{task_id}/logs/{try_number}")["content"]
        return "\n".join(_log_line(entry) for entry in content)

    def failures(self) -> str:
        """Each failed task with the end of its log, and Airflow's events of the run. Without failures, all states."""
        tasks = self.tasks()
        failed = [task for task, state in tasks.items() if state == "failed"]
        if not failed:
            return str(tasks)
        said = [f"{task} failed:\n{self.log(task)[-4000:]}" for task in failed]
        asked = {"dag_id": self.dag_id, "run_id": self.run_id}
        noted = _get(self.client, f"/api/v2/eventLogs?{urlencode(asked)}")["event_logs"]
        said += [f"{entry['when']} {entry['event']} {entry['task_id']} {entry['extra'] or ''}" for entry in noted]
        return "\n".join(said)

    def request(self, task: str = "approve") -> dict[str, Any]:
        """The approval request: options, subject, body, and who may answer."""
        return _get(self.client, f"{self.path}/taskInstances/{task}/-1/hitlDetails")

    def answer(
        self,
        option: str,
        *,
        throttle_bytes_per_second: int | None = None,
        note: str | None = None,
        task: str = "approve",
    ) -> httpx.Response:
        """Answers the request as this client's user. The reply may be a refusal. Some requests ask for no throttle."""
        throttle = {} if throttle_bytes_per_second is None else {"throttle_bytes_per_second": throttle_bytes_per_second}
        form = {**throttle, "note": note}
        return self.client.patch(
            f"{self.path}/taskInstances/{task}/-1/hitlDetails",
            json={"chosen_options": [option], "params_input": form},
        )

    def wait(
        self, condition: Callable[[], Any], *, timeout: float, what: str, each_poll: Callable[[], object] | None = None
    ) -> Any:
        """The condition's first true value. Raises TimeoutError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            found = condition()
            if found:
                return found
            if each_poll is not None:
                each_poll()
            if time.monotonic() > deadline:
                raise TimeoutError(f"This has not come true within {timeout:.0f} s: {what}. Tasks: {self.tasks()}")
            time.sleep(POLL_SECONDS)

    def wait_for_request(
        self, *, timeout: float = 180, each_poll: Callable[[], object] | None = None, task: str = "approve"
    ) -> dict[str, Any]:
        """The approval request, as soon as the run waits for an answer. Raises RuntimeError if the run fails before."""

        def waiting() -> bool:
            tasks = self.tasks()
            if "failed" in tasks.values():
                raise RuntimeError(f"{self.run_id}: {self.failures()}")
            return tasks.get(task) == "awaiting_input"

        self.wait(waiting, timeout=timeout, what=f"{self.run_id} waits for approval", each_poll=each_poll)
        # Airflow 3.3.2 fails a task that somebody answers before the scheduler knows that the parked task's process has
        # ended: its "success" then meets a task that is queued again. The supervisor may see that one interval late.
        parked = self._scheduler_heartbeat()
        settled = lambda: (self._scheduler_heartbeat() - parked).total_seconds() > HEARD_AFTER_SECONDS  # noqa: E731
        self.wait(settled, timeout=60, what="the scheduler knows that the approval is parked")
        return self.request(task)

    def _scheduler_heartbeat(self) -> datetime:
        beat = _get(self.client, "/api/v2/monitor/health")["scheduler"]["latest_scheduler_heartbeat"]
        return datetime.fromisoformat(beat)

    def wait_for_end(self, *, timeout: float = 300, each_poll: Callable[[], object] | None = None) -> str:
        """The run's final state."""
        ended = lambda: (state := self.state()) in ENDED and state  # noqa: E731
        return str(self.wait(ended, timeout=timeout, what=f"{self.run_id} ends", each_poll=each_poll))


def wait_for_dag(client: httpx.Client, dag_id: str, *, timeout: float = 120) -> None:
    """Waits until the Dag processor has read the Dag, and unpauses it."""
    deadline = time.monotonic() + timeout
    while client.get(f"/api/v2/dags/{dag_id}").status_code != httpx.codes.OK:
        if time.monotonic() > deadline:
            errors = client.get("/api/v2/importErrors").text
            raise TimeoutError(f"Airflow has not read Dag {dag_id} within {timeout:.0f} s. Import errors: {errors}")
        time.sleep(POLL_SECONDS)
    client.patch(f"/api/v2/dags/{dag_id}", json={"is_paused": False}).raise_for_status()


def set_variable(client: httpx.Client, key: str, value: str) -> None:
    """An Airflow Variable. One that is there already, from an earlier start, stays as it is."""
    reply = client.post("/api/v2/variables", json={"key": key, "value": value})
    if reply.status_code != httpx.codes.CONFLICT:
        reply.raise_for_status()


def trigger(client: httpx.Client, dag_id: str, conf: Mapping[str, Any]) -> DagRun:
    """Starts a run with these params. Raises RuntimeError with Airflow's text if it refuses them."""
    reply = client.post(f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": dict(conf)})
    if reply.is_error:
        raise RuntimeError(f"Airflow did not start {dag_id}: {reply.status_code} {reply.text}")
    return DagRun(client, dag_id, reply.json()["dag_run_id"])


def _log_line(entry: str | dict[str, Any]) -> str:
    """The event of one structured entry, with its error."""
    if isinstance(entry, str):
        return entry
    errors = [f"{error['exc_type']}: {error['exc_value']}" for error in entry.get("error_detail") or []]
    return " ".join([entry["event"], *errors])


def _get(client: httpx.Client, path: str) -> dict[str, Any]:
    reply = client.get(path)
    reply.raise_for_status()
    content: dict[str, Any] = reply.json()
    return content
