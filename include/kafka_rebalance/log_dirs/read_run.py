"""What the files of a run of `kafka_log_dirs` say so far, for its page."""

from __future__ import annotations

from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE
from kafka_rebalance.documents.progress import PROGRESS_FILE
from kafka_rebalance.log_dirs.log_dir_run import LogDirRun
from kafka_rebalance.run.decision import DECISION_FILE
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.run.verification import VERIFICATION_FILE


def read_log_dir_run(folder: RunFolder, *, is_active: bool, has_succeeded: bool, has_open_request: bool) -> LogDirRun:
    """Raises ArtifactError, StorageError."""
    return LogDirRun(
        LOG_DIRS_FILE.read_if_there(folder),
        DECISION_FILE.read_if_there(folder),
        PROGRESS_FILE.read_if_there(folder),
        VERIFICATION_FILE.read_if_there(folder),
        is_active,
        has_succeeded,
        has_open_request,
    )
