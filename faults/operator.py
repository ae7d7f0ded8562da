"""An operator who does only what the run itself asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faults.clusters.fault_cluster import AWAY, BROKERS, FaultCluster

ELECT = re.compile(r"(?i)another controller|controller election|broker that is controller|new controller")


class Operator:
    """Restarts the brokers that the run names, one after the other, each once. `did` says so in the case's line.

    On 2.8.2 a controller may die or stand still while it owes leaders the answer to AlterIsr. Such a leader asks no
    other controller, and its partition's copy stays out of the ISR until somebody restarts the leader.
    """

    def __init__(self, cluster: FaultCluster) -> None:
        self.cluster = cluster
        self.did = ""
        self._restarted: list[int] = []

    def look(self, run_folder: Path) -> None:
        """Does what progress.json asks for, when all brokers are registered again."""
        file = run_folder / "progress.json"
        if not file.exists():
            return
        named = leaders_to_restart(json.loads(file.read_text(encoding="utf-8")))
        leader = next((leader for leader in named if leader not in self._restarted), None)
        if leader is None or self.cluster.registered() != set(BROKERS):
            return
        self._restarted.append(leader)
        self.did = f"broker {', '.join(map(str, self._restarted))} restarted, as the run asked"
        self.cluster.local.kill_broker(leader)
        self.cluster.local.start_broker(leader)

    def clear_request(self, advice: str) -> str:
        """Elects another controller for a request that the controller ignores; returns what is wrong, or "".

        `advice` is what the run said in its errors and on its page. The operator elects only if it says so.
        """
        if not self.cluster.has_zookeeper:
            return ""  # no request can be left behind
        try:
            if self.cluster.reassignment() is None or self.cluster.registered() != set(BROKERS):
                return ""
        except AWAY:
            return ""  # ZooKeeper does not answer: this can wait
        if not ELECT.search(advice):
            return "the request stays, but the run does not say that another controller clears it"
        self.did = "another controller elected, as the run asked"
        self.cluster.elect_controller()
        try:
            self.cluster.wait("the request is gone", lambda: self.cluster.reassignment() is None, 30)
        except TimeoutError as stays:
            return str(stays)
        return ""


def leaders_to_restart(progress: Mapping[str, Any]) -> tuple[int, ...]:
    """The leaders of copies that the run calls late, if such a copy has all its bytes and is still out of the ISR."""
    whole = [
        one["late_behind"]
        for one in progress.get("partitions", ())
        if "late_behind" in one and one["phase"] == "copying" and one["bytes_copied"] == one["bytes_total"]
    ]
    return tuple(dict.fromkeys(whole))
