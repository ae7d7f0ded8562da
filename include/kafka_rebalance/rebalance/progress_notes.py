"""progress.json: how far a run is, for the web page, the janitor and the next follower.

`updated_at` is the heartbeat of the process that follows a batch or waits for the next. These are only notes: a failed
write stops no move, and what cannot be read is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeAlias

from kafka_rebalance.documents.progress import PROGRESS_FILE, Happening, Progress
from kafka_rebalance.errors import ArtifactError, StorageError
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.move_progress import MovesProgress
from kafka_rebalance.rebalance.controller_findings import FindingKind
from kafka_rebalance.rebalance.stalled_copies import Pair
from kafka_rebalance.run.run_folder import RunFolder

ANOMALIES_SHOWN = 20
WAITING, UNREADABLE = "the next batch waits", "the cluster cannot be read"  # short forms, besides those of findings

Subject: TypeAlias = TopicPartition | Pair | FindingKind  # of a finding


def read_progress(folder: RunFolder) -> Progress | None:
    """What was noted last; None: nothing that can be read."""
    try:
        return PROGRESS_FILE.read(folder)
    except ArtifactError:
        return None


def write_progress(folder: RunFolder, progress: Progress) -> str | None:
    """Why it could not be written; None if it was."""
    try:
        PROGRESS_FILE.write(folder, progress)
    except StorageError as failed:
        return str(failed.__cause__)
    return None


def write_unreadable(folder: RunFolder, now: float, why: str) -> None:
    """Notes that the follower cannot read the cluster; what was known stays."""
    before = _noted(folder, now)
    told = told_after(Told.of(before), now, {**before.open, UNREADABLE: why})
    write_progress(
        folder,
        replace(
            before,
            updated_at=moment(now),
            state="unreadable",
            waiting_for=(why,),
            open=told.open,
            events=told.events,
        ),
    )


def write_waiting(folder: RunFolder, now: float, reasons: Sequence[str], until: datetime | None = None) -> None:
    """`until`: when a window opens, if the run waits for that."""
    before = _noted(folder, now)
    told = told_after(Told.of(before), now, {WAITING: " ".join(reasons)})
    write_progress(
        folder,
        replace(
            before,
            updated_at=moment(now),
            state="waiting",
            waiting_for=tuple(reasons),
            waiting_since=(before.waiting_since if before.state == "waiting" else None) or moment(now),
            waiting_until=None if until is None else until.replace(microsecond=0),
            anomalies=(),
            open=told.open,
            events=told.events,
        ),
    )


def _noted(folder: RunFolder, now: float) -> Progress:
    return read_progress(folder) or Progress(updated_at=moment(now), state="")


def read_measured(folder: RunFolder, batch: int) -> int | None:
    """Bytes of the batch's new replicas when it ended; None if no follower measured them."""
    noted = read_progress(folder)
    return (
        None if noted is None or noted.batch != batch or noted.this_batch is None else noted.this_batch.measured_bytes
    )


def movement_of(noted: Progress | None, batch: int) -> Mapping[str, Any]:
    """What an earlier follower of this batch noted of its movement; empty if none did."""
    return noted.movement if noted is not None and noted.batch == batch else {}


def moment(at: float) -> datetime:
    return datetime.fromtimestamp(int(at), UTC)


# The history of a run: when each finding and each wait began, and when it was over.


KEPT = 40  # events, the newest


@dataclass(frozen=True, slots=True)
class Told:
    """`open`: {what is wrong or waited for now, in short: the whole text}. `events`: oldest first."""

    open: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Happening, ...] = ()

    @classmethod
    def of(cls, noted: Progress | None) -> Told:
        return cls() if noted is None else cls(noted.open, noted.events)


def told_after(before: Told, now: float, subjects: Mapping[str, str]) -> Told:
    """The history after another look. `subjects` is of the form of `open`: the same short form is told once."""
    over = [f"No longer: {short}" for short in before.open if short not in subjects]
    begun = [text for short, text in subjects.items() if short not in before.open]
    events = (*before.events, *(Happening(moment(now), text) for text in (*over, *begun)))
    return Told(dict(subjects), events[-KEPT:])


def wrong(progress: MovesProgress, odd: Mapping[Subject, str]) -> dict[str, str]:
    """{short: text} of the findings, of which people are told at their beginning and at their end."""
    late = {f"{about} is late" if isinstance(about, TopicPartition) else str(about): odd[about] for about in odd}
    return dict(islice({**progress.anomalies, **late}.items(), ANOMALIES_SHOWN))
