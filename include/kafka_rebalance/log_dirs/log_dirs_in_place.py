"""Whether each replica lies in the log dir of the approved plan, and no copy is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_rebalance.documents.log_dir_plan import LogDirMove, Replica
from kafka_rebalance.run.check_result import Check, CheckName


def check_log_dirs(
    moves: Iterable[LogDirMove], paths: Mapping[Replica, str], future: Mapping[Replica, str]
) -> tuple[Check, ...]:
    """`log_dir` for each move. `paths` are of replicas now, `future` of copies under way, on brokers that answered.

    A replica that its broker no longer has passes with a warning: its topic was deleted, or it moved to another broker.
    """
    return tuple(_check(move, paths.get(move.replica), future.get(move.replica)) for move in moves)


def _check(move: LogDirMove, path: str | None, coming: str | None) -> Check:
    subject, expectation = str(move.replica), f"in {move.after}, and no copy of it under way"
    if path is None:
        finding = "the broker no longer has this replica"
        return Check(CheckName.LOG_DIR, subject, expectation, finding, True, "warning")
    finding = f"in {path}" if coming is None else f"in {path}, and a copy goes to {coming}"
    return Check(CheckName.LOG_DIR, subject, expectation, finding, path == move.after and coming is None)
