"""What has changed since a person last rejected a proposal for this cluster: rejection.json, and its words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kafka_rebalance.documents.json_object import Document


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
    at: datetime
    note: str
    then: Proposed | None
    now: Proposed
    same_moves: float | None

    @property
    def came(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.now.brokers) - set(self.then.brokers if self.then else self.now.brokers)))

    @property
    def went(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.then.brokers if self.then else ()) - set(self.now.brokers)))


def read_rejection(document: Document) -> Rejection | None:
    """Of rejection.json; None where the last answer was no rejection, or there was none."""
    part = document.optional_part("rejected")
    if part is None:
        return None
    then = part.optional_part("then")
    return Rejection(
        part.text("run_id"),
        part.optional_text("by"),
        part.time("at"),
        (part.optional_text("note") or "").strip(),
        None if then is None else _proposed(then),
        _proposed(part.part("now")),
        part.optional_number("same_moves"),
    )


def _proposed(part: Document) -> Proposed:
    return Proposed(
        part.text("candidate"),
        part.count("bytes"),
        part.optional_count("partitions"),
        part.optional_number("highest"),
        part.ids("brokers"),
    )
