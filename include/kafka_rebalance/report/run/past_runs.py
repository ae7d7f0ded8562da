"""When a rebalance will be over, by what earlier ones of the cluster took: estimate.json, and its words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kafka_rebalance.documents.json_object import Document
from kafka_rebalance.execution.eta import ASSUMED, MIN_SECONDS, eta_range
from kafka_rebalance.report.units import format_count, format_range


@dataclass(frozen=True, slots=True)
class PastRun:
    """What an earlier run was to copy and to take, and what became of it; None is unknown."""

    run_id: str
    candidate: str
    recorded_at: datetime
    is_verified: bool
    predicted_bytes: int | None
    copied_bytes: int | None
    predicted_seconds: float | None
    actual_seconds: float | None
    unmeasured_bytes: int | None = None  # of those copied, by their planned size; None: all, of an older version

    @property
    def is_as_planned(self) -> bool:
        """Whether nothing of what was copied was measured."""
        return bool(self.copied_bytes) and self.unmeasured_bytes in (None, self.copied_bytes)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Actual over predicted seconds of the cluster's earlier runs, and the newest of these runs."""

    ratios: tuple[float, ...]
    last: tuple[PastRun, ...]
    problems: tuple[str, ...]  # what of the ledger could not be read, in words

    def finishes_in(self, seconds: float | None) -> str:
        """Of a plan that takes that long by itself: `38–52 min, from 12 runs here`; empty where nothing can be said."""
        if seconds is None or seconds < MIN_SECONDS:
            return ""
        found = eta_range(seconds, self.ratios)
        runs = format_count(found.runs, "run", "runs")
        if found.is_measured:
            return f"{format_range(found.low, found.high)}, from {runs} here"
        few = f"{runs} here {'is' if found.runs == 1 else 'are'} too few to tell"
        low, high = ASSUMED
        return f"{format_range(found.low, found.high)}, assumed at {low}–{high} times the plan: {few}"


def read_estimate(document: Document) -> Estimate:
    """Of estimate.json. Raises ArtifactError for a missing or wrong value."""
    ratios = document.content.get("ratios")
    last = tuple(
        PastRun(
            run_id=part.text("run_id"),
            candidate=part.text("candidate"),
            recorded_at=part.time("recorded_at"),
            is_verified=part.flag("verified"),
            predicted_bytes=part.optional_count("predicted_bytes"),
            copied_bytes=part.optional_count("copied_bytes"),
            predicted_seconds=part.optional_number("predicted_seconds"),
            actual_seconds=part.optional_number("actual_seconds"),
            unmeasured_bytes=part.optional_count("unmeasured_bytes"),
        )
        for part in document.parts("last")
    )
    numbers = ratios if isinstance(ratios, list) else [None]
    by_place = Document(f"{document.where}: ratios", {str(place): ratio for place, ratio in enumerate(numbers)})
    return Estimate(tuple(by_place.number(place) for place in by_place.content), last, document.texts("problems"))
