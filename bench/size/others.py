"""Another client of a ZooKeeper, in a process of its own: it reads and writes at a steady rate and times each request.

`python -m bench.size.others HOSTS TOPICS` answers with its times when its stdin ends.
"""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kazoo.client import KazooClient

from bench.clusters import Cluster

ROOT = Path(__file__).parents[2]
REQUESTS_PER_SECOND = 100  # reads and writes in turn, one at a time
OWN = "/others"
Timed = list[tuple[float, float]]  # (when it was sent, milliseconds until its answer)


@dataclass(frozen=True, slots=True)
class Latencies:
    """Numbers of requests, and their 50th and 99th percentile in milliseconds."""

    reads: int
    read: tuple[float, float]
    writes: int
    written: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Seen:
    reads: Timed
    writes: Timed

    def during(self, windows: Sequence[tuple[float, float]]) -> Latencies:
        """Of the requests that were sent within the windows (`time.monotonic`)."""
        reads, writes = (
            sorted(ms for at, ms in timed if any(begin <= at < end for begin, end in windows))
            for timed in (self.reads, self.writes)
        )
        return Latencies(len(reads), _percentiles(reads), len(writes), _percentiles(writes))


def _percentiles(found: Sequence[float]) -> tuple[float, float]:
    if not found:
        raise SystemExit("No request was sent in a window.")
    return found[len(found) // 2], found[len(found) * 99 // 100]


class Others:
    """The process, as its parent sees it."""

    def __init__(self, hosts: str, cluster: Cluster) -> None:
        topics = sorted({str(row["topic"]) for row in cluster.partitions})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.size.others", hosts, json.dumps(topics)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "steady\n":
            raise SystemExit("The other client did not begin.")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> Seen:
        answer, _ = self._process.communicate()
        return Seen(*json.loads(answer))


def main() -> None:
    """It collects no garbage, because its own pauses would look like ZooKeeper's."""
    hosts, topics = sys.argv[1], json.loads(sys.argv[2])
    stopped = threading.Event()

    def stop_at_the_end_of_stdin() -> None:
        sys.stdin.read()
        stopped.set()

    threading.Thread(target=stop_at_the_end_of_stdin, daemon=True).start()
    client = KazooClient(hosts=hosts, timeout=30)
    client.start(timeout=30)
    client.ensure_path(OWN)
    chance = random.Random("others")
    reads: Timed = []
    writes: Timed = []
    gc.disable()
    print("steady", flush=True)
    began, number = time.monotonic(), 0
    while not stopped.wait(max(0.0, began + number / REQUESTS_PER_SECOND - time.monotonic())):
        at = time.monotonic()
        if number % 2:
            client.set(OWN, b"%d" % number)
        else:
            client.get(f"/brokers/topics/{chance.choice(topics)}/partitions/0/state")
        (writes if number % 2 else reads).append((at, (time.monotonic() - at) * 1000))
        number += 1
    print(json.dumps([reads, writes]), flush=True)
    client.stop()
    client.close()


if __name__ == "__main__":
    main()
