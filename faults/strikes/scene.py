"""What a strike may touch, and how its damage is healed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from faults.cases import Case
from faults.clusters.fault_cluster import FaultCluster
from faults.run import Run


@dataclass(frozen=True, slots=True)
class Scene:
    """One case. `leader` is a random broker from which copies are read and which is not the controller."""

    cluster: FaultCluster
    case: Case
    ours: Run
    leader: int


@dataclass(frozen=True, slots=True)
class Struck:
    """What was done, in words, and a function that heals it and may take a while."""

    what: str
    heal: Callable[[], None] = lambda: None


def later(seconds: float, heal: Callable[[], object]) -> Callable[[], None]:
    """A function that waits so long, then heals."""

    def wait() -> None:
        time.sleep(seconds)
        heal()

    return wait
