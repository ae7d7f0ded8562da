"""The Dags as Airflow's Dag processor reads them from the Dag folder, made anew for each caller."""

from __future__ import annotations

import sys

from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG

from support.airflow.airflow_home import REPOSITORY


def read_dags() -> dict[str, DAG]:
    """By id. A test may change them: the next caller gets others."""
    for name in [name for name in sys.modules if name.startswith("kafka_rebalance.dags")]:
        del sys.modules[name]
    bag = DagBag(str(REPOSITORY / "dags"))
    assert bag.import_errors == {}
    return bag.dags
