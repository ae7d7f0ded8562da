"""The matrix as data: which fault strikes when, on which version of Kafka."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from local_cluster.locks import VERSIONS


class Fault(StrEnum):
    """What happens. Every kill is a kill -9."""

    TARGET = "target"  # the broker that receives the copies is killed, and started again
    LEADER = "leader"  # a broker that copies are read from
    CONTROLLER = "controller"
    ZOOKEEPER = "zookeeper"  # every server of the ensemble, started again three seconds later
    ZOOKEEPER_ONE = "zookeeper-one"  # the leader of the ensemble's three
    RACK = "rack"  # all brokers of the target's rack, an old leader among them
    FROZEN = "frozen"  # SIGSTOP of the target: registered, and answering nothing
    WORKER = "worker"  # the process that runs our tasks
    TRIGGERER = "triggerer"  # the process that follows a batch


class Moment(StrEnum):
    """When it strikes."""

    SUBMIT = "submit"  # the reassignment znode has just been created
    MID_COPY = "mid-copy"  # the target holds two fifths of the bytes
    END = "end"  # the first new replica is in sync


FAULT_TEXTS = {
    Fault.TARGET: "kill -9 of the target broker",
    Fault.LEADER: "kill -9 of a leader that copies are read from",
    Fault.CONTROLLER: "kill -9 of the controller",
    Fault.ZOOKEEPER: "kill -9 of all of ZooKeeper, started again",
    Fault.ZOOKEEPER_ONE: "kill -9 of the leader of three ZooKeepers",
    Fault.RACK: "kill -9 of all brokers of the target's rack",
    Fault.FROZEN: "SIGSTOP of the target broker",
    Fault.WORKER: "kill -9 of our worker",
    Fault.TRIGGERER: "kill -9 of our triggerer",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One fault at one moment on one version."""

    version: str
    fault: Fault
    moment: Moment
    seed: int

    @property
    def name(self) -> str:
        return f"{self.version}/{self.fault}/{self.moment}"

    @property
    def topic(self) -> str:
        return f"{self.fault}-at-{self.moment}"

    def random(self) -> random.Random:
        """The case's own numbers, whatever ran before it."""
        return random.Random(f"{self.seed}/{self.name}")


def matrix(versions: Collection[str] = VERSIONS, only: Collection[str] = (), seed: int = 6) -> Iterator[Case]:
    """All cases of these versions, one version after the other. `only`: parts of names, one of which must be in it."""
    for version in versions:
        for fault in Fault:
            for moment in Moment:
                case = Case(version, fault, moment, seed)
                if not only or any(part in case.name for part in only):
                    yield case
