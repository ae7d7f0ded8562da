"""Which files of one day of the ledger count: the files of single runs, and the newest compacted file.

Spark compacts the files of several runs into one file, in which each row has the name of its former file. It removes a
run's file only after it has read the compacted file back. Until then, and if a cleared task writes the run's file
again, the rows in the run's own file count. So no row is lost or counted twice, wherever compaction stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SOURCE_FILE = "source_file"  # a column that only compacted files have
# No run's file has a `~` in its name. The number grows, and each compacted file has all rows of the one before.
_COMPACTED = re.compile(r"compacted~(\d+)\.parquet")


def compacted_name(number: int) -> str:
    """The name of a day's n-th compacted file."""
    return f"compacted~{number}.parquet"


def compacted_number(name: str) -> int | None:
    """Which of a day's compacted files this is; None for a run's file."""
    match = _COMPACTED.fullmatch(name)
    return int(match[1]) if match else None


def files_that_count(names: Iterable[str]) -> list[str]:
    """One day's files that count: the newest compacted one first, then all of single runs."""
    numbers = {name: compacted_number(name) for name in sorted(names)}
    newest = max((number for number in numbers.values() if number is not None), default=None)
    compacted = [] if newest is None else [compacted_name(newest)]
    return compacted + [name for name, number in numbers.items() if number is None]
