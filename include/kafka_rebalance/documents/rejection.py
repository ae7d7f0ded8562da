"""rejection.json: the cluster's last rejected proposal beside this run's."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.documents.json_files import REJECTION, JsonFile, Time


@dataclass(frozen=True, slots=True)
class Proposed:
    """The candidate that was or is recommended, its cluster, and how uneven the cluster is. None: unknown."""

    candidate: str
    bytes: int
    partitions: int | None
    highest: float | None  # the highest broker's multiple of its share of bytes on disk, before
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rejection:
    """Who rejected which run, when and why. `then` is None if its folder is gone. `same_moves` is a share of `now`."""

    run_id: str
    by: str | None
    at: Time
    note: str | None
    then: Proposed | None
    now: Proposed
    same_moves: float | None

    @property
    def came(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.now.brokers) - set(self.then.brokers if self.then else self.now.brokers)))

    @property
    def went(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.then.brokers if self.then else ()) - set(self.now.brokers)))


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """None: there was no answer, or it was no rejection."""

    rejected: Rejection | None


REJECTION_FILE = JsonFile(REJECTION, LastAnswer)
