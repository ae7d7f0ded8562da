"""The planner's files of a run, computed once for each snapshot and settings: many tests begin with the same plan."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.storage import read_if_there
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning import planner
from kafka_rebalance.planning.tables.history import TOPIC_RATES
from kafka_rebalance.planning.tables.read_problem import BROKERS, PARTITIONS

_planned: dict[tuple[object, ...], Path] = {}
_kept = tempfile.TemporaryDirectory(prefix="kafka-rebalance-plans-")


def plan_once(folder: Path, settings: Settings) -> None:
    """Leaves in the run's folder what `planner.run` writes there."""
    snapshot = folder / json_files.SNAPSHOT_FOLDER
    files = (read_if_there(snapshot / name) for name in (BROKERS, PARTITIONS, TOPIC_RATES))
    made_of = (*files, digest_of(settings.to_mapping()))
    if made_of not in _planned:
        kept = Path(_kept.name, str(len(_planned)))
        planner.run(snapshot, kept, settings)
        _planned[made_of] = kept
    shutil.copytree(_planned[made_of], folder, dirs_exist_ok=True)
