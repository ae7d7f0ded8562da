"""rejection.json: the cluster's last rejected proposal beside this run's."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.documents.json_files import REJECTION, JsonFile, Time


@dataclass(frozen=True, slots=True)
class Proposed:
    """What was, or is, recommended: of which cluster, and how uneven that is. None: not known."""

    candidate: str
    bytes: int
    partitions: int | None
    highest: float | None  # the highest broker's multiple of its share of bytes on disk, before
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rejection:
    """Who rejected which run, when and why. `then` None: its folder is gone. `same_moves` is a share of now's."""

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
    """None: it was no rejection, or there was none."""

    rejected: Rejection | None


REJECTION_FILE = JsonFile(REJECTION, LastAnswer)
