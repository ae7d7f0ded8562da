"""The tables of a run's plan for its pages: read once, held against the candidate's digest, kept in bounded memory.

A plan stays as it is once it is written, and its digest tells it from any other: what was read of it stays true. Pages
are asked for every few seconds, and a plan may have 150,000 moves.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafka_rebalance.documents.json_files import PAGE, read_json, write_json
from kafka_rebalance.errors import ArtifactError, RebalanceError
from kafka_rebalance.planning.tables.result_tables import read_disk_peaks, read_fullest_disks, read_loads
from kafka_rebalance.report.candidate.page_tables import CandidateTables
from kafka_rebalance.workflow.run.folder import RunFolder

if TYPE_CHECKING:
    from kafka_rebalance.report.candidate.move_search import MoveTable

log = logging.getLogger(__name__)

MOVE_TABLES_BYTES = 256 * 1024**2
CANDIDATES_KEPT = 40  # each some hundred kB at 1,000 brokers

Value = TypeVar("Value")
Key = tuple[str, str, str]  # folder, candidate, digest


class Kept(Generic[Value]):
    """The values used last, of at most so much size together; the one in use stays, however large."""

    def __init__(self, most: int, size: Callable[[Value], int]) -> None:
        self._most, self._size = most, size
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._making: dict[Key, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value, made where it is not kept. What `make` raises is raised, and nothing is kept of it."""
        found = self._find(key)
        if found is not None:
            return found
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:  # two who open the same page would read its tables twice; of another page nobody waits
            found = self._find(key)
            if found is None:
                found = make()
                self._keep(key, found)
            return found

    def _keep(self, key: Key, value: Value) -> None:
        with self._lock:
            self._making.pop(key, None)
            self._values[key] = value
            while len(self._values) > 1 and sum(map(self._size, self._values.values())) > self._most:
                self._values.popitem(last=False)

    def is_there(self, key: Key) -> bool:
        """Whether the value is kept, or being made."""
        with self._lock:
            return key in self._values or key in self._making

    def _find(self, key: Key) -> Value | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)


_candidates: Kept[CandidateTables] = Kept(CANDIDATES_KEPT, lambda tables: 1)
_pages: Kept[CandidateTables] = Kept(CANDIDATES_KEPT, lambda tables: 1)
_moves: Kept[MoveTable] = Kept(MOVE_TABLES_BYTES, lambda table: table.size_bytes)


def read_tables(folder: RunFolder, proposals: Mapping[str, Any], name: str) -> CandidateTables:
    """What the run's page says of a candidate of `proposals.json`. Raises ArtifactError."""

    def read() -> CandidateTables:
        return CandidateTables.of(
            name,
            read_loads(folder, name),
            read_move_table(folder, proposals, name).summary(),
            read_fullest_disks(folder, name),
            read_disk_peaks(folder, name),
        )

    return _candidates.get(_key(folder, proposals, name), read)


def write_page_tables(folder: RunFolder, proposals: Mapping[str, Any]) -> None:
    """`page.json`: the same of every candidate."""
    written = [
        {"name": candidate["name"], "digest": candidate["digest"]}
        | read_tables(folder, proposals, candidate["name"]).to_mapping()
        for candidate in proposals["candidates"]
    ]
    write_json(folder, PAGE, {"candidates": written})


def read_page_tables(folder: RunFolder, proposals: Mapping[str, Any], name: str) -> CandidateTables:
    """As `read_tables`, for a page: from `page.json`, where it is of this digest, so that no moves are read.

    Whoever approves or executes reads the moves themselves, which the digest is of.
    """
    return _pages.get(_key(folder, proposals, name), lambda: _written(folder, proposals, name))


def _written(folder: RunFolder, proposals: Mapping[str, Any], name: str) -> CandidateTables:
    _, _, digest = _key(folder, proposals, name)
    try:
        for candidate in read_json(folder, PAGE)["candidates"]:
            if (candidate["name"], candidate["digest"]) == (name, digest):
                return CandidateTables.from_mapping(candidate, PAGE)
    except (ArtifactError, KeyError, TypeError) as unusable:
        log.info("%s: the tables are read instead: %s", folder, unusable)
    return read_tables(folder, proposals, name)


def read_move_table(folder: RunFolder, proposals: Mapping[str, Any], name: str) -> MoveTable:
    """All its moves, to search in. Raises ArtifactError, also where they do not give the candidate's digest."""
    # Arrow's functions: 9 MB, which the processes that only import this module do not need.
    from kafka_rebalance.planning.tables.move_columns import read_moves
    from kafka_rebalance.report.candidate.move_search import MoveTable

    return _moves.get(_key(folder, proposals, name), lambda: MoveTable(read_moves(folder, proposals, name)))


def begin_to_read(folder: RunFolder, proposals: Mapping[str, Any], name: str) -> None:
    """Reads the moves in a thread of its own, so that whoever searches them after reading the page need not wait."""
    if not _moves.is_there(_key(folder, proposals, name)):
        threading.Thread(target=_read_ahead, args=(folder, proposals, name), daemon=True).start()


def _read_ahead(folder: RunFolder, proposals: Mapping[str, Any], name: str) -> None:
    try:
        read_move_table(folder, proposals, name).prepare()
    except (RebalanceError, OSError) as unusable:  # whoever asks for them is told
        log.info("%s: the moves are not read ahead: %s", folder, unusable)


def _key(folder: RunFolder, proposals: Mapping[str, Any], name: str) -> Key:
    digest = next(candidate["digest"] for candidate in proposals["candidates"] if candidate["name"] == name)
    return str(folder), name, digest
