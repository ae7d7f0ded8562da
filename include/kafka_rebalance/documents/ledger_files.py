"""Which files of one day of the ledger count: those of single runs, and the newest that Spark made of many.

A compacted file has the rows of several runs' files, each row with the name of the file that it was in. Compaction
removes those only once they are in there and read back; until then, and where a cleared task has written one of them
again, a row counts where it is in a run's own file. So no row is lost or counted twice, wherever compaction stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SOURCE_FILE = "source_file"  # the column that compacted files have, and no run's file
# No run's file has a `~` in its name. The number grows: each compacted file has all rows of the one before.
_COMPACTED = re.compile(r"compacted~(\d+)\.parquet")


def compacted_name(number: int) -> str:
    """The name of a day's n-th compacted file."""
    return f"compacted~{number}.parquet"


def compacted_number(name: str) -> int | None:
    """Which of a day's compacted files this is; None for a run's own."""
    found = _COMPACTED.fullmatch(name)
    return int(found[1]) if found else None


def files_that_count(names: Iterable[str]) -> list[str]:
    """Of one day's Parquet files: all of single runs, and the newest compacted one first."""
    own, compacted = [], []
    for name in sorted(names):
        number = compacted_number(name)
        if number is None:
            own.append(name)
        else:
            compacted.append((number, name))
    return [name for _, name in sorted(compacted)[-1:]] + own
