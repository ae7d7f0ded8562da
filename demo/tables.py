"""The tables that the demo prints at its end, from the run's folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kafka_rebalance.model.amounts_in_words import bytes_in_words

MIB = 1024**2


def broker_table(folder: Path, candidate: str) -> str:
    """Replicas, leaders and bytes of each broker, before and after."""
    rows = [row for row in pq.read_table(folder / "loads").to_pylist() if row["candidate"] == candidate]
    by_broker: dict[int, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_broker.setdefault(row["broker"], {})[row["phase"]] = row
    lines = [f"  {'broker':>6}  {'rack':<8}{'replicas':>16}{'leaders':>16}{'MiB on disk':>18}"]
    for broker, phases in sorted(by_broker.items()):
        before, after = phases["before"], phases["after"]
        cells = [f"{before[key]:>6} -> {after[key]:>4}" for key in ("replicas", "leaders")]
        disk = f"{before['size_bytes'] / MIB:>7.1f} -> {after['size_bytes'] / MIB:>6.1f}"
        lines.append(f"  {broker:>6}  {before['rack'] or '-':<8}{cells[0]:>16}{cells[1]:>16}{disk:>18}")
    return "\n".join(lines)


def move_lines(folder: Path, candidate: str, most: int = 8) -> Iterator[str]:
    """The largest moves with their reasons, and the number of the others."""
    moves = [row for row in pq.read_table(folder / "moves").to_pylist() if row["candidate"] == candidate]
    moves.sort(key=lambda row: -row["bytes"])
    total = sum(row["bytes"] for row in moves)
    yield f"  {len(moves)} partitions in {len({row['batch'] for row in moves})} batches, {bytes_in_words(total)} copied"
    for row in moves[:most]:
        lists = f"{row['before']} -> {row['after']}"
        yield f"  {row['topic']}-{row['partition']}: {lists}, {bytes_in_words(row['bytes'])}; {row['reason']}"
    if len(moves) > most:
        yield f"  and {len(moves) - most} more"


def check_lines(verification: Mapping[str, Any]) -> Iterator[str]:
    """A line for each kind of check, and one for each check that failed."""
    passed, total = Counter[str](), Counter[str]()
    for check in verification["checks"]:
        total[check["name"]] += 1
        passed[check["name"]] += check["passed"]
        if not check["passed"]:
            yield f"  FAILED {check['name']} of {check['subject']}: {check['finding']}, must be {check['expectation']}"
    for name in total:
        yield f"  {name}: {passed[name]} of {total[name]} passed"
