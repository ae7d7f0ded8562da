"""The table `disk` of a run's folder: how full each broker's disks get while a candidate runs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kafka_rebalance.documents.storage import Folder, read_if_there
from kafka_rebalance.planning.tables.result_tables import PART, parquet_table, read_loads


def read_fullest_disks(run_folder: Folder, name: str, most: int = 4) -> list[dict[str, Any]]:
    """Of one candidate the rows of DISK_SCHEMA of the brokers whose disks get fullest, fullest first, then by batch.

    Full is against the capacity; behind these come disks of unknown size, by bytes. Nothing, for a run that has no
    such table.
    """
    import pyarrow.compute as pc

    table = _disk(run_folder, name)
    if table is None:
        return []
    peaks = _peaks(table)
    capacities = {row["broker"]: row["disk_capacity_bytes"] for row in read_loads(run_folder, name)}

    def rank(broker: int) -> tuple[bool, float, int]:
        capacity = capacities.get(broker)
        return not capacity, -peaks[broker] / (capacity or 1), broker

    fullest = sorted(peaks, key=rank)[:most]
    rows: list[dict[str, Any]] = table.filter(pc.is_in(table["broker"], pa.array(fullest, pa.int32()))).to_pylist()
    return sorted(rows, key=lambda row: (fullest.index(row["broker"]), row["batch"]))


def read_disk_peaks(run_folder: Folder, name: str) -> dict[int, int]:
    """{broker: bytes on its disk at most while the candidate runs}; empty for a run that has no such table."""
    table = _disk(run_folder, name)
    return {} if table is None else _peaks(table)


def _disk(run_folder: Folder, name: str) -> pa.Table | None:
    import pyarrow.compute as pc

    content = read_if_there(run_folder / "disk" / PART)
    if content is None:
        return None
    table = parquet_table(content, f"{run_folder / 'disk' / PART}")
    return table.filter(pc.equal(table["candidate"], name))


def _peaks(disk: pa.Table) -> dict[int, int]:
    found = disk.group_by("broker").aggregate([("peak_bytes", "max")])
    return dict(zip(found["broker"].to_pylist(), found["peak_bytes_max"].to_pylist(), strict=True))
