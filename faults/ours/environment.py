"""The connection, the policy and the Airflow settings of our processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults.clusters.fault_cluster import FaultCluster
from faults.clusters.file_systems import own_file_system
from kafka_rebalance.local_cluster import LocalCluster

CONNECTION = "kafka_faults"
STORAGE_BYTES = 200_000_000
POLICY = "approvers: [uma]\nmax_bytes_share: 1.0\nmax_throttle_bytes_per_second: 100000000\n"


@contextmanager
def airflow(folder: Path, cluster: FaultCluster) -> Iterator[dict[str, str]]:
    """The environment of our processes. The runs' folder is a file system of its own."""
    environment = airflow_environment(folder, cluster.local, POLICY)
    with own_file_system(folder / "runs", STORAGE_BYTES):
        yield environment


def airflow_environment(folder: Path, cluster: LocalCluster, policy: str) -> dict[str, str]:
    """The Airflow settings of our processes. Writes the policy below `folder`, where the runs' folder is too."""
    (folder / "policies").mkdir(parents=True)
    (folder / "policies" / f"{CONNECTION}.yaml").write_text(policy, encoding="utf-8")
    connection: dict[str, Any] = {"conn_type": "kafka_admin_api", "host": cluster.bootstrap_servers}
    if not cluster.kraft:
        extra = {"bootstrap_servers": cluster.bootstrap_servers}
        connection = {"conn_type": "kafka_zookeeper", "host": cluster.zookeeper, "extra": extra}
    return {
        f"AIRFLOW_CONN_{CONNECTION.upper()}": json.dumps(connection),
        "AIRFLOW_VAR_KAFKA_REBALANCE_FREEZE": "false",  # our processes have no database to read it from
        "AIRFLOW__KAFKA_REBALANCE__RUNS_URL": str(folder / "runs"),
        "AIRFLOW__KAFKA_REBALANCE__POLICIES_FOLDER": str(folder / "policies"),
    }
