"""Who holds a cluster, under which fence, and what was announced: one run at a time, whichever Airflow it belongs to.

An Airflow is named `address (mark)`, as in `https://airflow.example.org (9f3a1c2e)`. Only the mark tells one Airflow
from another. The address is for people: it is a setting, and somebody may change it while a run holds a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from kafka_rebalance.model.partition import TopicPartition

Copies = Mapping[int, Mapping[TopicPartition, str]]  # by broker: an absolute path for each replica

_MARKED = re.compile(r".*\(([^()]+)\)", re.DOTALL)


def marked(address: str, mark: str) -> str:
    return f"{address or 'airflow'} ({mark})"


def is_same_airflow(name: str, other: str) -> bool:
    """Whether both names are of one Airflow. Names without a mark, of older versions, must be equal."""
    marks = [match[1] if (match := _MARKED.fullmatch(owner)) else None for owner in (name, other)]
    return name == other if None in marks else marks[0] == marks[1]


def is_same_run(run: str, owner: str, other_run: str, other_owner: str) -> bool:
    """Whether these are one run of one Airflow. Two Airflows can have runs with the same name."""
    return run == other_run and is_same_airflow(owner, other_owner)


@dataclass(frozen=True, slots=True)
class LockOwner:
    """Who holds the cluster. `run` and `owner` together name the run: two Airflows can have runs of one name."""

    run: str  # Dag id and run id
    digest: str  # of the approved candidate
    owner: str  # which Airflow
    acquired_at: str = ""  # ISO 8601, for people

    @property
    def name(self) -> str:
        """`dag/run of airflow`, as people read it, and as an operator names the run to break its lock."""
        return f"{self.run} of {self.owner}"

    def is_same_run(self, other: LockOwner) -> bool:
        """An Airflow is known by its mark, whatever its address is now."""
        return is_same_run(self.run, self.owner, other.run, other.owner)


@dataclass(frozen=True, slots=True)
class Fence:
    """What must still be as it was when this was read; otherwise nothing is written.

    `generation`: each raise makes a later one, as text. It is empty if nobody ever held the cluster. `versions`:
    {path: version} of the znodes to check; empty without ZooKeeper.
    """

    versions: Mapping[str, int] = field(default_factory=dict)
    generation: str = ""


NO_FENCE = Fence()


@dataclass(frozen=True, slots=True)
class Intent:
    """A request that was announced, and whose end nobody has noted.

    `targets`: the list to which each partition is to move. `copies`: by broker, the log dir into which each replica is
    to be copied.
    """

    id: str
    run: str
    owner: str
    batch: int
    at: datetime  # by the clock of the cluster
    targets: Mapping[TopicPartition, tuple[int, ...]]
    copies: Copies = field(default_factory=dict)
    order: int = 0  # later announcements have a greater one


def encode_copies(copies: Copies) -> list[list[Any]]:
    """Plain JSON values."""
    return [[broker, *tp, path] for broker, paths in sorted(copies.items()) for tp, path in sorted(paths.items())]


def decode_copies(rows: Iterable[Sequence[Any]]) -> Copies:
    """Raises TypeError or ValueError for anything but what `encode_copies` gives."""
    copies: dict[int, dict[TopicPartition, str]] = {}
    for broker, topic, number, path in rows:
        copies.setdefault(int(broker), {})[TopicPartition(str(topic), int(number))] = str(path)
    return copies


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The JSON of the throttle's lease, and the generation of the fence under which it was written."""

    generation: str
    text: bytes


class AirflowState(StrEnum):
    """What Airflow says of a lease's run."""

    RUNNING = "running"
    PAUSED = "paused"  # the run goes on, but its Dag is paused: Airflow queues none of its tasks
    OVER = "over"  # success or failed
    GONE = "gone"  # deleted
    UNKNOWN = "unknown"  # another Airflow's, or this one does not answer

    @property
    def is_ended(self) -> bool:
        return self in {AirflowState.OVER, AirflowState.GONE}
