"""estimate.json: how long earlier runs of a cluster took, beside what they had predicted."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.documents.json_files import ESTIMATE, JsonFile, Time


@dataclass(frozen=True, slots=True)
class PastRun:
    """What an earlier run was to copy, in which time, and what became of it; None: unknown."""

    run_id: str
    candidate: str
    recorded_at: Time
    verified: bool
    predicted_bytes: int | None
    copied_bytes: int | None
    predicted_seconds: float | None
    actual_seconds: float | None
    unmeasured_bytes: int | None = None  # the part of `copied_bytes` that is only planned; None: all (older versions)

    @property
    def is_as_planned(self) -> bool:
        """Whether nobody measured what was copied."""
        return bool(self.copied_bytes) and self.unmeasured_bytes in (None, self.copied_bytes)


@dataclass(frozen=True, slots=True)
class Estimate:
    """`ratios`: actual over predicted seconds of the cluster's earlier runs. `last`: the newest of these runs."""

    ratios: tuple[float, ...]
    last: tuple[PastRun, ...]
    problems: tuple[str, ...]  # what could not be read of the ledger, in words


ESTIMATE_FILE = JsonFile(ESTIMATE, Estimate)
