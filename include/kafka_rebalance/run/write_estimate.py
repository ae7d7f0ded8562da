"""Writes estimate.json: how long the next run of a cluster will take, from its earlier runs."""

from __future__ import annotations

from datetime import datetime

from kafka_rebalance.errors import StorageError
from kafka_rebalance.moves.eta import DAYS_COUNTED, run_ratios
from kafka_rebalance.run import ledger_rows
from kafka_rebalance.run.deployment import Deployment
from kafka_rebalance.run.estimate import ESTIMATE_FILE, Estimate, PastRun
from kafka_rebalance.run.run_folder import RunFolder

LAST_RUNS = 5
_SHOWN = (
    *("run_id", "candidate", "verified", "predicted_bytes", "copied_bytes", "unmeasured_bytes"),
    *("predicted_seconds", "actual_seconds"),
)


def write_estimate(deployment: Deployment, folder: RunFolder, connection_id: str, run_id: str, now: datetime) -> None:
    """Uses the ledger's outcomes, without this run's own.

    An unreadable ledger stops no plan. The file names it, and the approver reads that the range is assumed.
    """
    try:
        rows, unreadable = ledger_rows.read(deployment, "outcomes", connection_id, DAYS_COUNTED, now=now)
        problems = [f"{name} of the ledger's outcomes cannot be read" for name in unreadable]
    except StorageError as wrong:
        rows, problems = [], [str(wrong)]
    earlier = [row for row in rows if row["run_id"] != run_id]
    last = tuple(
        PastRun(recorded_at=row["observed_at"].replace(microsecond=0), **{key: row[key] for key in _SHOWN})
        for row in earlier[:LAST_RUNS]
    )
    ESTIMATE_FILE.write(folder, Estimate(tuple(run_ratios(earlier)), last, tuple(problems)))
