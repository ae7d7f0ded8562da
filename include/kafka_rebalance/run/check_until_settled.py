"""Checks after a change, repeated until all pass or the time is up, and verification.json."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from kafka_rebalance.clock import looks, now_text
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import VerificationError
from kafka_rebalance.run.check_result import Check, Summary, document, summarise
from kafka_rebalance.run.run_folder import RunFolder

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5


def settled(look: Callable[[], tuple[Check, ...]], seconds: float) -> tuple[Check, ...]:
    """The results of the last look."""
    said, checks = "", tuple[Check, ...]()
    for _ in looks(seconds, LOOK_SECONDS):
        checks = look()
        failed = summarise(checks).failed
        if not failed:
            break
        if failed[0].finding != said:
            said = failed[0].finding
            log.info("%d of %d checks to go: %s, %s", len(failed), len(checks), failed[0].subject, said)
    return checks


def write_checks(folder: RunFolder, checks: tuple[Check, ...], source_digest: str, **more: Any) -> Summary:
    written = {**document(checks), "verified_at": now_text(), **more}
    json_files.write_json(folder, json_files.VERIFICATION, written, source_digest=source_digest)
    summary = summarise(checks)
    for line in summary.lines():
        log.info("%s", line)
    return summary


def check_passed(summary: Summary) -> None:
    if not summary.passed:
        raise VerificationError(f"{summary.failure()} Nothing more was written. Clear this task to look again.")
