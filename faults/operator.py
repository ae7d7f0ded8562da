"""What an operator does meanwhile: nothing, but for what the run itself asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kazoo.exceptions import KazooException

from faults.cluster import BROKERS, FaultCluster

RESTART = re.compile(r"broker (\d+), which leads it, does not bring it into the ISR: restart that broker")
ELECT = re.compile(r"(?i)another controller|controller election|broker that is controller|new controller")


class Operator:
    """Restarts a broker where the run says so, once. `did` tells it, for the case's line.

    On 2.8.2 a controller that dies while it owes a leader the answer to AlterIsr leaves that leader waiting for it: the
    leader asks no other controller, and its partition's copy stays out of the ISR until the broker is restarted.
    """

    def __init__(self, cluster: FaultCluster) -> None:
        self.cluster = cluster
        self.did = ""

    def look(self, run_folder: Path) -> None:
        """Acts on progress.json, once all brokers are there again."""
        file = run_folder / "progress.json"
        if self.did or not file.exists():
            return
        leader = leader_to_restart(json.loads(file.read_text(encoding="utf-8")))
        if leader is None or self.cluster.registered() != set(BROKERS):
            return
        self.did = f"broker {leader} restarted, as the run asked"
        self.cluster.local.kill_broker(leader)
        self.cluster.local.start_broker(leader)

    def clear_request(self, advice: str) -> str:
        """What is wrong, or empty. A request of which the controller has lost sight ends with another controller.

        `advice`: what the run has said in its errors and on its page; an operator does this only where it says so.
        """
        try:
            if self.cluster.reassignment() is None or self.cluster.registered() != set(BROKERS):
                return ""
        except KazooException:
            return ""  # ZooKeeper is away: this can wait
        if not ELECT.search(advice):
            return "the request stays, and the run does not say that another controller clears it"
        self.did = "another controller elected, as the run asked"
        self.cluster.elect_controller()
        try:
            self.cluster.wait("the request is gone", lambda: self.cluster.reassignment() is None, 30)
        except TimeoutError as stays:
            return str(stays)
        return ""


def leader_to_restart(progress: Mapping[str, Any]) -> int | None:
    """The leader that keeps a whole copy out of the ISR, by the run's own words; None where all bytes still come."""
    whole = {
        one["partition"]
        for one in progress.get("partitions", ())
        if one["phase"] == "copying" and one["bytes_copied"] == one["bytes_total"]
    }
    for text in progress.get("anomalies", ()):
        asked = RESTART.search(text)
        if asked is not None and text.partition(" ")[0] in whole:
            return int(asked[1])
    return None
