"""What a strike may touch, and what it leaves to be mended."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from faults.cases import Case
from faults.cluster import FaultCluster


class Ours(Protocol):
    """The run that is struck."""

    @property
    def folder(self) -> Path:
        """The run's folder."""

    def kill(self) -> None:
        """kill -9 of the process of ours that is at work, as soon as there is one."""

    def shift_clock(self, seconds: int) -> None:
        """Of every process of ours that is started from now on."""

    def stop_load(self) -> None:
        """Nobody writes to the topic any more, and what was acknowledged is known."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Of one case. `leader`: a broker that copies are read from and that is not the controller, drawn before."""

    cluster: FaultCluster
    case: Case
    ours: Ours
    random: random.Random
    leader: int


@dataclass(frozen=True, slots=True)
class Struck:
    """What was done, in words, and what makes it whole again (it may take a while)."""

    what: str
    heal: Callable[[], None] = lambda: None


def later(seconds: float, heal: Callable[[], object]) -> Callable[[], None]:
    """Heals after so long."""

    def wait() -> None:
        time.sleep(seconds)
        heal()

    return wait
