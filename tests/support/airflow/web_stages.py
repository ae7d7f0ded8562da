"""A run with its documents at each stage of its life, as the pages show it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kafka_rebalance.documents import json_files
from support.airflow.web_run import Run, waiting
from support.documents import report_samples as samples

LOOKED_AT = datetime.fromisoformat(samples.progress()["updated_at"])
CHANGED = {"at": "2026-05-03T15:05:00+00:00", "bytes_per_second": 25_000_000, "by": "uma"}
WINDOW = {"not_before": None, "finish_by": "2026-05-03T16:00:00+00:00"}
UNDER_WAY = {
    json_files.DECISION: samples.decision(),
    json_files.THROTTLE: samples.throttle(
        bytes_per_second=25_000_000, first_bytes_per_second=50_000_000, rate_changes=[CHANGED]
    ),
    json_files.BATCHES: samples.batches(),
    json_files.PROGRESS: samples.progress(
        busiest_bytes=46 * samples.GIB,
        later_busiest_bytes=[40 * samples.GIB],
        this_batch=samples.progress()["this_batch"] | {"bytes_total": 97 * samples.GIB},
    ),
}
WAITS = samples.progress(
    later_busiest_bytes=[70 * samples.GIB, 70 * samples.GIB],
    state="waiting",
    waiting_for=["Broker 4 is not registered. Start it. The run requests the next batch when it is back."],
)
_FIRST, _SECOND = samples.batches()["batches"]
_LAST = {"number": 3, "partitions": 10, "bytes": 31 * samples.GIB, "created_at": "2026-05-03T15:35:09+00:00"}
ENDED = {  # all 34 partitions
    "format_version": 1,
    "batches": [
        _FIRST | {"measured_bytes": 166 * samples.GIB},
        _SECOND | {"state": "done", "finished_at": "2026-05-03T15:35:00+00:00", "measured_bytes": 97 * samples.GIB},
        _LAST | {"state": "done", "finished_at": "2026-05-03T15:38:20+00:00", "measured_bytes": None},
    ],
}
# The second batch ended with the night's window, and the third waits for the next one.
BETWEEN = {
    json_files.DECISION: samples.decision(),
    json_files.THROTTLE: samples.throttle(suspended_at="2026-05-03T15:08:00+00:00"),
    json_files.BATCHES: {
        **ENDED,
        "batches": [_FIRST, _SECOND | {"state": "done", "finished_at": "2026-05-03T15:07:00+00:00"}],
        "pauses": [{"at": "2026-05-03T15:07:30+00:00", "until": "2026-05-03T23:00:00+00:00"}],
    },
    json_files.PROGRESS: samples.progress(
        state="waiting",
        waiting_for=["No batch begins before the window opens."],
        waiting_until="2026-05-03T23:00:00+00:00",
        later_busiest_bytes=[20 * samples.GIB],
        partitions_done=24,
        bytes_copied=256 * samples.GIB,
        bytes_per_second=None,
        phases={"queued": 10, "done": 24},
        anomalies=[],
        this_batch=None,
        brokers=[],
        brokers_total=0,
        partitions=[],
    ),
}
STAGES: dict[str, dict[str, Any]] = {
    "waiting": {},
    "executing": UNDER_WAY,
    "paused": UNDER_WAY | {json_files.PROGRESS: WAITS, json_files.LEFT_OUT: samples.left_out()},
    "between_windows": BETWEEN,
    "ended": UNDER_WAY,
    "verified": UNDER_WAY | {json_files.BATCHES: ENDED, json_files.VERIFICATION: samples.verification(passed=True)},
    "failed": UNDER_WAY | {json_files.VERIFICATION: samples.verification()},
}


def run_at(stage: str, folder: Path | None = None) -> Run:
    """A run in Airflow's state of that stage, with its documents."""
    run = Run(state="success" if stage == "verified" else "failed" if stage in ("ended", "failed") else "running")
    run.folder = folder or run.folder
    run.ready()
    for name, content in STAGES[stage].items():
        json_files.write_json(run.folder, name, of_today(content))
    snapshot = json_files.read_json(run.folder, json_files.SNAPSHOT)
    window = of_today(WINDOW)
    if stage == "between_windows":
        opens = datetime.fromisoformat(of_today(BETWEEN)[json_files.BATCHES]["pauses"][0]["until"])
        nightly = f"Mon-Sun {opens:%H:%M}-{opens + timedelta(hours=6):%H:%M} UTC"
        window = {"not_before": None, "finish_by": None, "recurring": [nightly]}
    json_files.write_json(run.folder, json_files.SNAPSHOT, snapshot | {"window": window})
    return run


def at_the_approval() -> Run:
    """A run that waits, with a reason, and with no time in which it has to move."""
    run = run_at("waiting")
    waiting(run)
    snapshot = json_files.read_json(run.folder, json_files.SNAPSHOT)
    changed = {"reason": "Brokers 5 and 6 are new and hold nothing", "window": {"not_before": None, "finish_by": None}}
    json_files.write_json(run.folder, json_files.SNAPSHOT, snapshot | changed)
    return run


def of_today(document: dict[str, Any]) -> dict[str, Any]:
    """The sample as if its run were going on now: who follows a run has just looked at it."""
    later = datetime.now(UTC).replace(microsecond=0) - LOOKED_AT
    times = r"2026-05-03T[\d:]+\+00:00"
    moved: dict[str, Any] = json.loads(
        re.sub(times, lambda at: (datetime.fromisoformat(at[0]) + later).isoformat(), json.dumps(document))
    )
    return moved
