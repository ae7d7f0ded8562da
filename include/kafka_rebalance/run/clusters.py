"""The clusters that the nightly check, the janitor and the overview look at, and the ids of our Dags."""

from __future__ import annotations

import json
import logging
from typing import Any

from kafka_rebalance.errors import SettingsError

log = logging.getLogger(__name__)

REBALANCE_DAG = "kafka_rebalance"
CANCEL_DAG = "kafka_rebalance_cancel"
TOPICS_DAG = "kafka_topics"
LOG_DIRS_DAG = "kafka_log_dirs"
CHECK_DAG = "kafka_balance_check"
JANITOR_DAG = "kafka_throttle_janitor"
CLUSTERS = "kafka_rebalance_clusters"  # an Airflow Variable


def how_to_stop(run: str) -> str:
    """What ends this run early and gives its cluster to others: words after "stop it"."""
    if run.startswith(f"{LOG_DIRS_DAG}/"):
        return "mark its task move as failed"
    return f"stop it with {CANCEL_DAG}"


def fleet(variable: Any) -> list[str]:
    """The connection ids of the Variable `kafka_rebalance_clusters`. Raises SettingsError if it is not such a list."""
    if variable is None:
        log.warning("The Variable kafka_rebalance_clusters is not set: no cluster is checked")
        return []
    try:
        names = json.loads(variable) if isinstance(variable, str) else variable
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise SettingsError(
            "The Variable kafka_rebalance_clusters must be a JSON list of connection ids, as in "
            '["kafka_eu", "kafka_us"]. No cluster was checked. Correct it under Admin, Variables.'
        )
    return list(dict.fromkeys(names))
