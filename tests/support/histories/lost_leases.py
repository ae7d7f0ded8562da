"""The lease that a simulated cluster has, as its files and its record tell it, and how one of both is lost."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from kafka_rebalance.errors import CorruptZnodeError
from kafka_rebalance.zookeeper import lease_record
from support.zookeeper.fake_zookeeper import FakeZooKeeper

RECORD = "/kafka_rebalance/lease"
LOSSES = ("folder", "damaged file", "record", "damaged record")


def lease_texts(leases: Path, fake: FakeZooKeeper) -> dict[str, Any]:
    """{cluster: its lease}; of files and record the later one that can be read."""
    found: dict[str, Any] = {}
    for cluster in leases.glob("*"):
        for file in sorted(cluster.glob("*.json"), reverse=True)[:1]:
            with suppress(ValueError):
                found[cluster.name] = json.loads(file.read_text())
    with suppress(CorruptZnodeError):
        record = lease_record.read(fake)  # type: ignore[arg-type]
        if record is not None:
            lease = json.loads(record.text)
            file_lease = found.get(lease["cluster_id"])
            if file_lease is None or file_lease["generation"] < record.generation:
                found[lease["cluster_id"]] = lease
    return found


def lose_lease(leases: Path, fake: FakeZooKeeper, how: str) -> bool:
    """Whether one copy is lost; the other one stays, as it is later or of the same time."""
    files = [max(cluster.glob("*.json"), default=None) for cluster in leases.glob("*")]
    latest = next((file for file in files if file is not None), None)
    record = fake.json(RECORD) if RECORD in fake.znodes and fake.znodes[RECORD].data != b"{}" else None
    if latest is None or record is None:
        return False
    try:
        file_generation = json.loads(latest.read_text())["generation"]
    except ValueError:
        return False
    if how in ("folder", "damaged file"):
        if record["generation"] < file_generation:
            return False
        if how == "folder":
            shutil.rmtree(leases)
        else:
            latest.write_text("{")
        return True
    if file_generation < record["generation"]:
        return False
    if how == "record":
        fake.delete(RECORD)
    else:
        fake.set(RECORD, b"{}")
    return True
