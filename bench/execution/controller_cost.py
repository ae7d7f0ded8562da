"""How long a batch keeps the controller busy, by the size of the topic's znode: `make bench-controller`.

There are three real brokers and one topic. A few of its partitions move. The others are on brokers that do not exist,
so that only the controller works for them. *Taken up* is when the controller has written the topic once for each moved
partition, *done* when it has deleted the request. Seconds per MiB use the cost as the planner counts it, beyond the
smallest topic. `model.rules.CONTROLLER_BYTES_PER_BATCH` comes from these figures.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import VERSIONS

REASSIGN = "/admin/reassign_partitions"
NOBODY = (101, 102, 103)
WAIT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Measured:
    topic_bytes: int  # the znode's, before the batch
    taken_up_seconds: float
    done_seconds: float


def measure(client: KazooClient, topic: str, partitions: int, moved: int) -> Measured:
    """Creates the topic and moves the first `moved` of its partitions from brokers 1 and 2 to 2 and 3."""
    lists = {number: (1, 2) if number < moved else NOBODY for number in range(partitions)}
    path = f"/brokers/topics/{topic}"
    client.create(path, _compact({"version": 1, "partitions": {str(key): value for key, value in lists.items()}}))
    states = [f"{path}/partitions/{number}/state" for number in range(moved)]
    _wait(lambda: all(client.exists(state) for state in states))
    _wait(lambda: all(len(json.loads(client.get(state)[0])["isr"]) == 2 for state in states))
    before = client.exists(path)
    entries = [{"topic": topic, "partition": number, "replicas": [2, 3]} for number in range(moved)]
    began = time.monotonic()
    client.create(REASSIGN, _compact({"version": 1, "partitions": entries}))
    # The controller handles the request as one event, and writes the topic once for each partition in it.
    _wait(lambda: client.exists(path).version >= before.version + moved)
    taken_up = time.monotonic()
    _wait(lambda: client.exists(REASSIGN) is None)
    return Measured(before.dataLength, taken_up - began, time.monotonic() - began)


def _compact(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _wait(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > give_up:
            raise SystemExit(f"The controller was not done after {WAIT_SECONDS} s. The cluster has ended.")
        time.sleep(0.005)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--versions", nargs="+", default=VERSIONS, choices=VERSIONS)
    parser.add_argument("--partitions", nargs="+", type=int, default=[1_000, 5_000, 10_000], help="in the topic")
    parser.add_argument("--moved", type=int, default=50, help="partitions in the batch")
    asked = parser.parse_args()
    print("Kafka   partitions  topic KiB  cost MiB  taken up s  done s  s a MiB")
    for version in asked.versions:
        with LocalCluster(version=version, brokers=3, racks=0) as cluster:
            client = KazooClient(hosts=cluster.zookeeper, timeout=30)
            client.start()
            try:
                measure(client, "warm-up", asked.moved, asked.moved)
                least: tuple[float, float] | None = None
                for partitions in asked.partitions:
                    found = measure(client, f"topic-{partitions}", partitions, asked.moved)
                    cost = asked.moved * found.topic_bytes / 2**20
                    least = least or (cost, found.done_seconds)
                    slope = (found.done_seconds - least[1]) / (cost - least[0]) if cost > least[0] else None
                    print(
                        f"{version:<8}{partitions:>10,}{found.topic_bytes / 1024:>11.0f}{cost:>10.1f}"
                        f"{found.taken_up_seconds:>12.2f}{found.done_seconds:>8.2f}"
                        + (f"{slope:>9.2f}" if slope is not None else ""),
                        flush=True,
                    )
            finally:
                client.stop()
                client.close()


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
