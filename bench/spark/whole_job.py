"""The planner's whole job, by step and size: `make bench-whole-job` writes it into docs/evidence/planning_time.md.

Snapshot tables go in, and all candidates of the default settings come out. First each size runs in one process, so that
each step's CPU seconds are its own; then the largest that fit go through spark-submit as the Dag submits them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.clusters import SIZES, write_cluster
from bench.pages import write_section
from bench.planner import ONE_THREAD, ROOT
from bench.spark.whole_steps import PARTS, REST
from kafka_rebalance.documents.json_files import NONCE, TIMINGS, read_json, write_json
from kafka_rebalance.local_cluster.machine.java import java_home
from kafka_rebalance.model.settings import SEARCHED, Settings
from kafka_rebalance.spark import package_zip

SECTION = "bench-whole-job"
SCENARIO, SEED = "add", 1  # the scenario with most moves
THROUGH_SPARK = ("M", "L", "XL")
LEAST = 0.05  # seconds: the exponent of a shorter step says nothing
STEPS = ("read", *(f"search of {name}" for name in SEARCHED), *(part for part, _, _ in PARTS), REST, "bounds", "write")


@dataclass(frozen=True, slots=True)
class Whole:
    """One size in one process."""

    size: str
    steps: Mapping[str, float]  # CPU seconds
    replicas: int
    moves: int  # of the last candidate, `balanced`
    batches: int
    peak_bytes: int


def in_one_process(size: str, folder: Path) -> Whole:
    out = folder / f"{size}-here"
    out.mkdir()
    command = [sys.executable, "-m", "bench.spark.whole_steps", str(folder / size), str(out)]
    measuring = [sys.executable, str(ROOT / "bench/measured.py"), *command]
    done = subprocess.run(measuring, capture_output=True, text=True, env=os.environ | ONE_THREAD, check=False)
    if done.returncode:
        raise SystemExit(f"{size} was not planned:\n{done.stderr}")
    found = json.loads((out / "steps.json").read_bytes())
    return Whole(size, **found, peak_bytes=json.loads(done.stdout)["peak_bytes"])


@dataclass(frozen=True, slots=True)
class Submitted:
    """One size through spark-submit. Memory is the peak of one process of each kind."""

    size: str
    cpu_seconds: Mapping[str, Any]  # timings.json's
    driver_bytes: int
    worker_bytes: int
    java_bytes: int
    seconds: float

    @property
    def critical_seconds(self) -> float:
        """CPU seconds of Python from the first step to the last: the driver's, and the longest candidate's."""
        candidates = [sum(one.values()) for one in self.cpu_seconds.values() if isinstance(one, dict)]
        own: float = sum(one for one in self.cpu_seconds.values() if not isinstance(one, dict))
        return own + max(candidates)

    @property
    def executor_seconds(self) -> float:
        return sum(sum(one.values()) for one in self.cpu_seconds.values() if isinstance(one, dict))


def through_spark(
    size: str, folder: Path, options: Sequence[str] = ("--master", "local[2]"), name: str = "spark"
) -> Submitted:
    """Plans the snapshot `folder / size`, into a folder beside it that ends with `name`."""
    out = folder / f"{size}-{name}"
    out.mkdir()
    write_json(out, NONCE, {"nonce": SECTION, "dag_id": "bench", "run_id": size})
    write_json(out, "settings.json", Settings().to_mapping())
    archive = package_zip.build_package_zip(folder / "kafka_rebalance.zip")
    command = [str(Path(sys.executable).parent / "spark-submit"), *options, "--py-files", str(archive)]
    command += [str(ROOT / "include/kafka_rebalance/spark/job.py"), "--snapshot", str(folder / size), "--out", str(out)]
    command += ["--settings", str(out / "settings.json"), "--expect-nonce", SECTION]
    inherited = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONPATH")}
    told = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    began = time.monotonic()
    process = subprocess.Popen(
        command, env=inherited | told | ONE_THREAD, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    peaks = {"driver": 0, "worker": 0, "java": 0}
    while process.poll() is None:
        for kind, peak in _peaks(process.pid):
            peaks[kind] = max(peaks[kind], peak)
        time.sleep(0.1)
    said = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"{size} was not planned:\n{said}")
    taken = read_json(out, TIMINGS)["cpu_seconds"]
    return Submitted(size, taken, peaks["driver"], peaks["worker"], peaks["java"], time.monotonic() - began)


def _peaks(pid: int) -> Iterator[tuple[str, int]]:
    """(kind, peak of its resident memory in bytes) of the process and of all below it."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        below = [int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in _children(task)]
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return
    kind = "worker" if b"pyspark.daemon" in command else "driver" if b"spark/job.py" in command else "java"
    if kind == "driver" and b"java" in command.split(b"\0")[0]:
        kind = "java"
    lines = [line.split() for line in status.splitlines() if line.startswith("VmHWM:")]
    yield from ((kind, 1024 * int(line[1])) for line in lines)
    for child in below:
        yield from _peaks(child)


def _children(task: Path) -> Sequence[str]:
    return (task / "children").read_text(encoding="utf-8").split()


def by_step(rows: Sequence[Whole]) -> Iterator[str]:
    """A line for each step, with a column for each size, and the exponent in replicas between the two largest sizes."""
    yield ""
    yield f"| CPU s | {' | '.join(row.size for row in rows)} | exponent |"
    yield f"|---|{'---:|' * (len(rows) + 1)}"
    for step in STEPS:
        if any(step in row.steps for row in rows):
            yield _line(step, rows, [row.steps.get(step) for row in rows])
    yield _line("**all**", rows, [sum(row.steps.values()) for row in rows])
    for name, values in (
        ("replicas", [row.replicas for row in rows]),
        ("moves of `balanced`", [row.moves for row in rows]),
        ("batches of `balanced`", [row.batches for row in rows]),
        ("peak MiB", [round(row.peak_bytes / 2**20) for row in rows]),
    ):
        yield f"| {name} | {' | '.join(f'{value:,}' for value in values)} | |"


def _line(name: str, rows: Sequence[Whole], spent: Sequence[float | None]) -> str:
    before, after = [0.0, *(one or 0.0 for one in spent)][-2:]
    grows = ""
    if min(before, after) >= LEAST:
        grows = f"{math.log(after / before) / math.log(rows[-1].replicas / rows[-2].replicas):.2f}"
    return f"| {name} | {' | '.join('–' if one is None else f'{one:,.2f}' for one in spent)} | {grows} |"


def by_process(rows: Sequence[Submitted]) -> Iterator[str]:
    yield ""
    yield (
        "| spark-submit, `local[2]` | critical path, CPU s | all candidates, CPU s | driver's Python MiB | "
        "a worker's Python MiB | JVM MiB | wall s |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for row in rows:
        memory = " | ".join(f"{one / 2**20:,.0f}" for one in (row.driver_bytes, row.worker_bytes, row.java_bytes))
        yield (
            f"| {row.size} {SCENARIO} | {row.critical_seconds:,.1f} | {row.executor_seconds:,.1f} | {memory} | "
            f"{row.seconds:,.0f} |"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark.whole_job", description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="+", choices=SIZES)
    parser.add_argument("--print-only", action="store_true", help="leave docs/ as it is")
    asked = parser.parse_args(arguments)
    here, submitted = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for size in asked.sizes:
            write_cluster(Path(scratch) / size, size, SCENARIO, SEED)
            here.append(in_one_process(size, Path(scratch)))
            print(*by_step(here[-1:]), sep="\n", flush=True)
        for size in (size for size in THROUGH_SPARK if size in asked.sizes):
            submitted.append(through_spark(size, Path(scratch)))
            print(*by_process(submitted[-1:]), json.dumps(submitted[-1].cpu_seconds), sep="\n", flush=True)
    lines = [*by_step(here), *by_process(submitted)]
    if asked.print_only:
        print(*lines, sep="\n")
    else:
        write_section(SECTION, lines)


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
