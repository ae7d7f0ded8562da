"""Records what real controllers write while they carry out moves, into `moves/<version>.json`.

Run it from the repository's root with `PYTHONPATH=include:tests`: `python tests/data/record_moves.py [VERSION ...]`.
The order is that of ZooKeeper's own log: nothing is missed between two looks.
"""

import json
import sys
from pathlib import Path

from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import VERSIONS
from support.kafka.recordings.move_recordings import SCENARIOS, record_move

FOLDER = Path(__file__).parent / "moves"


def record(version: str) -> Path:
    """A cluster for all scenarios, one after the other, each on a topic of its own."""
    with LocalCluster(version=version, brokers=4, racks=0) as cluster:
        moves = [record_move(cluster, scenario, scenario.name) for scenario in SCENARIOS]
    lines = ",\n".join(_move_text(move) for move in moves)
    path = FOLDER / f"{version}.json"
    path.write_text(f"[\n{lines}\n]\n")
    return path


def _move_text(move: dict[str, object]) -> str:
    """One line a step, so that a difference can be read."""
    steps = move.pop("steps")
    head = json.dumps(move)[1:-1]
    assert isinstance(steps, list)
    return f'{{{head}, "steps": [\n' + ",\n".join(f"  {json.dumps(step)}" for step in steps) + "\n]}"


if __name__ == "__main__":
    for wanted in sys.argv[1:] or VERSIONS:
        print(record(wanted))
