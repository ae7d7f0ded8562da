"""estimate.json: what earlier runs of a cluster took, and took longer than planned."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.documents.json_files import ESTIMATE, JsonFile, Time


@dataclass(frozen=True, slots=True)
class PastRun:
    """What an earlier run was to copy and to take, and what became of it; None is unknown."""

    run_id: str
    candidate: str
    recorded_at: Time
    verified: bool
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


ESTIMATE_FILE = JsonFile(ESTIMATE, Estimate)
