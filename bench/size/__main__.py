"""A snapshot of 300 brokers and 150,000 partitions: `make bench-size` writes it into docs/evidence/reading.md.

ZooKeeper is real, and its znodes are as Kafka writes them. There is no broker: what brokers answer is simulated
(`bench/size/snapshot.py`). Meanwhile another client reads and writes on the same ZooKeeper at a steady rate.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from bench.clusters import SIZES, Cluster, make_cluster
from bench.pages import write_section
from bench.size.others import Latencies, Others
from bench.size.znodes import write_znodes
from faults.clusters.file_systems import own_file_system
from kafka_rebalance.local_cluster.jars.locked_jars import DEFAULT_VERSION
from kafka_rebalance.local_cluster.jvms.class_archive import find_runtime
from kafka_rebalance.local_cluster.jvms.server_settings import zookeeper_properties
from kafka_rebalance.local_cluster.machine.ports import accepts_connections, free_port
from kafka_rebalance.local_cluster.machine.processes import Guard, start_process
from kafka_rebalance.planning.tables.read_problem import write_snapshot

ROOT = Path(__file__).parents[2]
SECTION = "bench-size"
HEAP, DATA_BYTES = "1g", 2_000_000_000
QUIET_SECONDS, REST_SECONDS = 20.0, 5.0
START_SECONDS = 60.0
BOUND_SECONDS, BOUND_BYTES, BOUND_MS = 45, 1.5e9, 5


@contextmanager
def zookeeper(folder: Path, version: str) -> Iterator[str]:
    """One ZooKeeper in its own JVM; yields `host:port`. The local cluster's has too small a heap for so many znodes.

    Its log is in memory, if this machine allows a mount: others that write to the same disk would delay its writes.
    """
    port, guard, memory = free_port(), Guard([]), ExitStack()
    try:
        memory.enter_context(own_file_system(folder / "data", DATA_BYTES))
        config = folder / "zoo.cfg"
        config.write_text(zookeeper_properties(folder / "data", port), encoding="utf-8")
        main = ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)]
        command = find_runtime(version, print).command(HEAP, folder, folder / "zookeeper.log", main)
        with first_on_the_processor(2):
            start_process(command, folder / "zookeeper.out", guard)
        give_up = time.monotonic() + START_SECONDS
        while not accepts_connections(port):
            if time.monotonic() > give_up:
                raise SystemExit("ZooKeeper has not started. Its folder was removed.")
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        guard.close()
        memory.close()


@contextmanager
def first_on_the_processor(priority: int) -> Iterator[None]:
    """Processes that are started meanwhile come before all others, in real time, and before those of less priority."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def snapshot(hosts: str, folder: Path) -> dict[str, Any]:
    """Takes the snapshot in a process of its own; returns its times and its memory."""
    taking = [sys.executable, "-m", "bench.size.snapshot", hosts, str(folder)]
    began = time.monotonic()
    with first_on_the_processor(1):
        taker = subprocess.Popen(
            [sys.executable, str(ROOT / "bench/measured.py"), *taking],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
    out, err = taker.communicate()
    ended = time.monotonic()
    if taker.returncode:
        raise SystemExit(f"No snapshot was taken, and nothing was written to docs/:\n{err}")
    seconds, taken = map(json.loads, out.splitlines())
    return {**taken, "parts": seconds, "began": began, "ended": ended}


def measured(cluster: Cluster, version: str, repeats: int) -> tuple[list[dict[str, Any]], dict[str, Latencies]]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tables = folder / "tables"
        tables.mkdir()
        write_snapshot(tables, cluster.brokers, cluster.partitions)
        with zookeeper(folder, version) as hosts:
            client = KazooClient(hosts=hosts, timeout=60)
            client.start(timeout=START_SECONDS)
            try:
                written = write_znodes(client, cluster)
                print(f"{written:,} znodes written", flush=True)
                with first_on_the_processor(2):
                    others = Others(hosts, cluster)
                with others:
                    time.sleep(QUIET_SECONDS)
                    quiet = time.monotonic()
                    runs = []
                    for _ in range(repeats):
                        time.sleep(REST_SECONDS)
                        runs.append(snapshot(hosts, folder))
                        print(json.dumps(runs[-1]), flush=True)
                    seen = others.stop()
            finally:
                client.stop()
                client.close()
    first = runs[0]["began"]
    return runs, {
        "nobody reads the cluster": seen.during([(quiet - QUIET_SECONDS + REST_SECONDS, min(quiet, first))]),
        "the snapshot reads ZooKeeper": seen.during([tuple(run["parts"]["zookeeper"]) for run in runs]),
        "the whole snapshot": seen.during([(run["began"], run["ended"]) for run in runs]),
    }


def lines(cluster: Cluster, runs: Sequence[dict[str, Any]], latencies: dict[str, Latencies]) -> Iterator[str]:
    yield ""
    size = f"{len(cluster.brokers):,} brokers and {len(cluster.partitions):,} partitions"
    yield f"{size}, the slowest of {len(runs)} snapshots:"
    yield ""
    yield "| | measured | bound |"
    yield "|---|---:|---:|"
    of_zookeeper = max(run["parts"]["zookeeper"][1] - run["parts"]["zookeeper"][0] for run in runs)
    slowest = max(run["seconds"] for run in runs)
    yield f"| the task `snapshot`, its process included | {slowest:.1f} s | {BOUND_SECONDS} s |"
    yield f"| of it at work on a processor | {max(run['cpu_seconds'] for run in runs):.1f} s | |"
    yield f"| of it reading ZooKeeper | {of_zookeeper:.1f} s | |"
    yield f"| of it waiting between two looks at the controller | {runs[0]['parts']['pause']:.1f} s | |"
    yield f"| peak memory | {max(run['peak_bytes'] for run in runs) / 1e9:.2f} GB | {BOUND_BYTES / 1e9:.1f} GB |"
    yield ""
    yield "| another client, while | reads | p50 ms | p99 ms | writes | p50 ms | p99 ms |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, one in latencies.items():
        yield (
            f"| {name} | {one.reads:,} | {one.read[0]:.1f} | {one.read[1]:.1f} | "
            f"{one.writes:,} | {one.written[0]:.1f} | {one.written[1]:.1f} |"
        )
    quiet, *others = latencies.values()
    reads = max(one.read[1] for one in others) / quiet.read[1]
    writes = max(one.written[1] for one in others) / quiet.written[1]
    yield ""
    yield f"- The other client's p99 should stay below {BOUND_MS} ms."
    yield f"- Beside the snapshot it is {reads:.2f} times the quiet one for reads, and {writes:.2f} times for writes."


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.size", description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="L")
    parser.add_argument("--version", default=DEFAULT_VERSION)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--print-only", action="store_true", help="leave docs/ as it is")
    asked = parser.parse_args(arguments)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    cluster = make_cluster(SIZES[asked.size], "skew", 1)
    found = list(lines(cluster, *measured(cluster, asked.version, asked.repeats)))
    print("\n".join(found))
    if not asked.print_only:
        write_section(SECTION, found)


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
