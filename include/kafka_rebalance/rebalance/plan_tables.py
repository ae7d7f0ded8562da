"""The tables of a run's plan for its pages: read once, checked against the candidate's digest, kept in bounded memory.

A plan never changes, and its digest identifies it, so its tables can be kept. Browsers reload pages every few seconds,
and a plan may have 150,000 moves.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from threading import Condition
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache, cached

from kafka_rebalance.documents.page_tables import PAGE_FILE, PageTables
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.pages.page_tables import CandidateTables
from kafka_rebalance.planning.tables.result_tables import read_disk_peaks, read_fullest_disks, read_loads
from kafka_rebalance.run.read_in_time import Reads
from kafka_rebalance.run.run_folder import RunFolder

if TYPE_CHECKING:
    from kafka_rebalance.pages.move_search import MoveTable

log = logging.getLogger(__name__)

MOVE_TABLES_BYTES = 256 * 1024**2
CANDIDATES_KEPT = 40  # each some hundred kB at 1,000 brokers

Key = tuple[str, str, str]  # folder, candidate, digest


def _key(folder: RunFolder, proposals: Mapping[str, Any], name: str) -> Key:
    digest = next(candidate["digest"] for candidate in proposals["candidates"] if candidate["name"] == name)
    return str(folder), name, digest


_moves: LRUCache[Key, MoveTable] = LRUCache(
    MOVE_TABLES_BYTES,
    lambda table: min(table.size_bytes, MOVE_TABLES_BYTES),  # the one in use stays, however large
)
_ahead: Reads[None] = Reads()


@cached(LRUCache(CANDIDATES_KEPT), _key, condition=Condition())
def read_tables(folder: RunFolder, proposals: Mapping[str, Any], name: str) -> CandidateTables:
    """What the run's page says of a candidate of `proposals.json`. Raises ArtifactError."""
    return CandidateTables.of(
        name,
        read_loads(folder, name),
        read_move_table(folder, proposals, name).summary(),
        read_fullest_disks(folder, name),
        read_disk_peaks(folder, name),
    )


def write_page_tables(folder: RunFolder, proposals: Mapping[str, Any]) -> None:
    """`page.json`: the same of every candidate."""
    written = [
        read_tables(folder, proposals, candidate["name"]).for_file(candidate["name"], candidate["digest"])
        for candidate in proposals["candidates"]
    ]
    PAGE_FILE.write(folder, PageTables(tuple(written)))


@cached(LRUCache(CANDIDATES_KEPT), _key, condition=Condition())
def read_page_tables(folder: RunFolder, proposals: Mapping[str, Any], name: str) -> CandidateTables:
    """As `read_tables`, for a page: from `page.json` if it is of this digest, to read no moves.

    An approval or an execution reads the moves themselves, because the digest is of the moves.
    """
    _, _, digest = _key(folder, proposals, name)
    try:
        for candidate in PAGE_FILE.read(folder).candidates:
            if (candidate.name, candidate.digest) == (name, digest):
                return CandidateTables.from_file(candidate)
    except ArtifactError as unusable:
        log.info("%s: reading the tables instead of page.json: %s", folder, unusable)
    return read_tables(folder, proposals, name)


@cached(_moves, _key, condition=Condition())
def read_move_table(folder: RunFolder, proposals: Mapping[str, Any], name: str) -> MoveTable:
    """All its moves, to search in. Raises ArtifactError, also if they do not give the candidate's digest."""
    # Arrow's functions: 9 MB that a process that only imports this module does not need.
    from kafka_rebalance.pages.move_search import MoveTable
    from kafka_rebalance.planning.tables.move_columns import read_moves

    return MoveTable(read_moves(folder, proposals, name))


def begin_to_read(folder: RunFolder, proposals: Mapping[str, Any], name: str) -> None:
    """Reads the moves in a thread of its own, so that a search on the page need not wait."""
    key = _key(folder, proposals, name)
    if key not in _moves:  # an error is raised at the search
        _ahead.ask("/".join(key), lambda: read_move_table(folder, proposals, name).prepare())
