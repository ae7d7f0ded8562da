"""Records what real controllers without ZooKeeper write while replicas move, into `changes/<version>.json`.

Run it from the repository's root with `PYTHONPATH=include:tests`: `python tests/data/record_changes.py [VERSION ...]`.
The order is that of the controllers' own log, which Kafka's DumpLogSegments reads: nothing is missed between two looks.
"""

import json
import sys
from pathlib import Path
from typing import Any

from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import KRAFT_VERSIONS
from kafka_rebalance.model.connection import KafkaConnection
from support.kafka.java.kafka_classes import KafkaClasses
from support.kafka.recordings.change_recordings import SCENARIOS, play, read_log, steps_of

FOLDER = Path(__file__).parent / "changes"
READER = "3.9.2"  # its DumpLogSegments reads the logs of later versions too


def record(version: str) -> Path:
    """A cluster for all scenarios, one after the other, each on a topic of its own."""
    with LocalCluster(version, brokers=4, racks=0, kraft=True, controllers=1, one_jvm=False) as cluster:
        asked = {}
        for scenario in SCENARIOS:
            with open_wire(KafkaConnection(cluster.bootstrap_servers)) as wire:
                asked[scenario.name] = play(cluster, wire, scenario)
            print(f"{version} {scenario.name}", flush=True)
        with KafkaClasses(READER) as classes:
            log = read_log(cluster.folder, classes)
    changes = [
        {
            "name": scenario.name,
            "before": {str(number): list(replicas) for number, replicas in scenario.before.items()},
            "steps": list(steps_of(scenario, asked[scenario.name], log)),
        }
        for scenario in SCENARIOS
    ]
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{version}.json"
    lines = ",\n".join(_text(change) for change in changes)
    path.write_text(f"[\n{lines}\n]\n")
    return path


def _text(change: dict[str, Any]) -> str:
    """One line a step, so that a difference can be read."""
    steps = change.pop("steps")
    head = json.dumps(change)[1:-1]
    return f'{{{head}, "steps": [\n' + ",\n".join(f"  {json.dumps(step)}" for step in steps) + "\n]}"


if __name__ == "__main__":
    for wanted in sys.argv[1:] or KRAFT_VERSIONS:
        print(record(wanted))
