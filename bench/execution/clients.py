"""What clients feel of a throttled move: `make bench-clients` writes it into docs/evidence/execution.md.

A steady load writes and reads, while nothing moves, while other partitions of the same brokers move at one throttle,
and while they move back in a range of rates. Each version has a cluster of its own, of three real brokers on this
machine.
"""

from __future__ import annotations

import argparse
import logging
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.execution.load import Latencies, Seen, load
from bench.execution.ours import Ours, set_up_airflow
from bench.pages import write_section
from kafka_rebalance.cluster.with_admin_api import AdminApiCluster
from kafka_rebalance.cluster.with_zookeeper import ZooKeeperCluster
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import KRAFT_VERSIONS

SECTION = "bench-clients"
VERSIONS = ("2.8.2", "3.9.2", "4.4.0")
BROKERS = 3
LOAD, BULK, SMALL, PARTITIONS = "load", "bulk", "small", 6
BULK_BYTES, SMALL_BYTES, THROTTLE, LEAST = 300_000_000, 600_000, 5_000_000, 1_250_000
QUIET_SECONDS, REST_SECONDS = 20.0, 10.0
FIRST_SECONDS = 1.0

Lists = Mapping[tuple[str, int], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Windows:
    """What a version has shown, by what went on: the latencies, and the megabytes and seconds of a move."""

    version: str
    quiet: Latencies
    moves: Mapping[str, tuple[Latencies, Latencies, float]]  # of the whole move, of its first second, its seconds

    def lines(self) -> Iterator[str]:
        quiet = self.quiet
        produced, fetched = (f"{percentiles[1]:.1f} | 1.00 | –" for percentiles in (quiet.produced, quiet.fetched))
        yield f"| {self.version} | nothing moves | – | {produced} | {fetched} |"
        for name, (whole, first, seconds) in self.moves.items():
            ratios = [
                (one.produced[1] / quiet.produced[1], one.fetched[1] / quiet.fetched[1]) for one in (whole, first)
            ]
            yield (
                f"| {self.version} | {name} | {seconds:.0f} | {whole.produced[1]:.1f} | {ratios[0][0]:.2f} | "
                f"{ratios[1][0]:.2f} | {whole.fetched[1]:.1f} | {ratios[0][1]:.2f} | {ratios[1][1]:.2f} |"
            )


def measured(version: str) -> Windows:
    kraft = version in KRAFT_VERSIONS
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(version, brokers=BROKERS, racks=0, kraft=kraft, one_jvm=False) as cluster,
    ):
        set_up_airflow(Path(folder), cluster, PARTITIONS)
        spread = {p: tuple((p + step) % BROKERS + 1 for step in range(BROKERS)) for p in range(PARTITIONS)}
        cluster.create_topic(LOAD, spread, {"min.insync.replicas": 2})
        for topic, size in ((BULK, BULK_BYTES), (SMALL, SMALL_BYTES)):
            cluster.create_topic(topic, {p: (p % BROKERS + 1,) for p in range(PARTITIONS)})
            cluster.produce(topic, dict.fromkeys(range(PARTITIONS), size // PARTITIONS))
        with load(cluster.bootstrap_servers, LOAD, PARTITIONS) as running:
            # A broker's first move loads classes, which a broker of a team has done long ago.
            _moved("warm-up", SMALL, 1)
            time.sleep(REST_SECONDS)
            quiet, windows = [_rest()], {}
            windows["a throttle"] = _moved("throttled", BULK, 1)
            time.sleep(REST_SECONDS)
            quiet.append(_rest())
            windows["a range of rates"] = _moved("range", BULK, 2, LEAST)
            seen: Seen = running.stop()
        if seen.refused:
            raise SystemExit(f"{seen.refused} records were refused.")
        moves = {
            name: (seen.during([(began, ended)]), seen.during([(began, began + FIRST_SECONDS)]), ended - began)
            for name, (began, ended) in windows.items()
        }
        return Windows(version, seen.during(quiet), moves)


def _rest() -> tuple[float, float]:
    began = time.monotonic()
    time.sleep(QUIET_SECONDS)
    return began, time.monotonic()


def _moved(run_id: str, topic: str, step: int, least: int | None = None) -> tuple[float, float]:
    """Moves each partition to the broker so many further; returns the times of the first request and of the end."""
    lists: Lists = {(topic, p): ((p + step) % BROKERS + 1,) for p in range(PARTITIONS)}
    run = Ours(run_id, lists, THROTTLE, PARTITIONS, least)
    run.approve()
    run.hold()
    with _requests() as requested:
        run.reassign()
    ended = time.monotonic()
    run.finish()
    return requested[0], ended


@contextmanager
def _requests() -> Iterator[list[float]]:
    """The times at which the run wrote its requests."""
    kinds: tuple[Any, ...] = (AdminApiCluster, ZooKeeperCluster)
    times: list[float] = []
    before = {kind: kind.request_moves for kind in kinds}

    def noting(kind: Any) -> Any:
        def request_moves(*given: Any, **named: Any) -> Any:
            times.append(time.monotonic())
            return before[kind](*given, **named)

        return request_moves

    for kind in kinds:
        kind.request_moves = noting(kind)
    try:
        yield times
    finally:
        for kind in kinds:
            kind.request_moves = before[kind]


def lines(found: Sequence[Windows]) -> Iterator[str]:
    yield ""
    yield (
        "| Kafka | while | seconds | produce p99 ms | ÷ quiet | first second ÷ quiet | fetch p99 ms | ÷ quiet | "
        "first second ÷ quiet |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for one in found:
        yield from one.lines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--versions", nargs="+", default=VERSIONS)
    parser.add_argument("--print-only", action="store_true", help="leave docs/ as it is")
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    found = []
    for version in asked.versions:
        found.append(measured(version))
        print("\n".join(found[-1].lines()), flush=True)
    if not asked.print_only:
        write_section(SECTION, [*lines(found)])


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
