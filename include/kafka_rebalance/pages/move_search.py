"""All moves of one candidate in columns, to search, sort, group and page in a fraction of a second."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafka_rebalance.documents.move_reason import REASON_GROUPS
from kafka_rebalance.pages.csv_files import cell
from kafka_rebalance.pages.page_tables import LARGEST_MOVES, MovesSummary
from kafka_rebalance.pages.search_query import PAGE_ROWS, SORTS, MovesPage, Query, ReasonGroup
from kafka_rebalance.planning.problem.arrays import Bools, Ints
from kafka_rebalance.planning.tables.move_columns import by_partition, changes_leader, moves_in

MOST_GROUPS = 12
OTHER, NO_REASON = "other reasons", "none given"
CSV_COLUMNS = ("topic", "partition", "bytes", "size_bytes", "before", "after", "batch", "reason")
CSV_HEAD = (
    "topic", "partition", "bytes_to_copy", "size_bytes", "replicas_before", "replicas_after", "batch", "reason",
)  # fmt: skip
_CSV_ROWS = 5_000  # in memory as text at one time


class MoveTable:
    """The moves of one candidate. Threads may share it: what it computes later is the same each time."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self._bytes: Ints = table["bytes"].to_numpy()
        self._orders: dict[str, Ints] = {}

    @property
    def size_bytes(self) -> int:
        """Roughly its memory, with what it computes later."""
        return int(2.5 * self.table.nbytes)

    def summary(self) -> MovesSummary:
        batch, size = self.table["batch"].to_numpy(), self.table["size_bytes"].to_numpy()
        largest = by_partition(self.table, -self._bytes, -size)[:LARGEST_MOVES]
        return MovesSummary(
            len(batch),
            _most(batch),
            _most(batch[changes_leader(self.table)]),
            moves_in(self.table.take(pa.array(largest))),
        )

    def prepare(self) -> None:
        """Computes what every search needs first."""
        self.search(Query("", next(iter(SORTS)), "-"))

    def search(self, query: Query) -> MovesPage:
        """The query's page, or the last page if there are fewer."""
        found = self._matches(query.text)
        number, labels = self._groups
        counts = np.bincount(number[found], minlength=len(labels))
        amounts = np.bincount(number[found], self._bytes[found], minlength=len(labels))
        groups = tuple(
            ReasonGroup(at, label, int(counts[at]), int(amounts[at])) for at, label in enumerate(labels) if counts[at]
        )
        if query.group is not None:
            found &= number == query.group
        order = self._order(query.sort)
        rows = order[found[order]]
        page = min(query.page, max(1, -(-len(rows) // PAGE_ROWS)))
        shown = rows[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
        return MovesPage(
            replace(query, page=page),
            moves_in(self.table.take(pa.array(shown))),
            len(rows),
            int(self._bytes[rows].sum()),
            len(self._bytes),
            groups,
        )

    def csv(self) -> Iterator[str]:
        """All moves in the order of topic and partition, some thousand lines at a time."""
        yield ",".join(CSV_HEAD) + "\r\n"
        order = self._order("partition")
        for start in range(0, len(order), _CSV_ROWS):
            some = self.table.take(pa.array(order[start : start + _CSV_ROWS]))
            columns = {name: some[name].to_pylist() for name in ("topic", "partition", "bytes", "size_bytes", "batch")}
            columns |= {
                name: pc.binary_join(some[name].cast(pa.list_(pa.string())), " ").to_pylist()
                for name in ("before", "after")
            }
            columns["topic"] = [cell(topic) for topic in columns["topic"]]
            columns["reason"] = [cell(reason or "") for reason in some["reason"].to_pylist()]
            text = io.StringIO(newline="")
            csv.writer(text).writerows(zip(*(columns[name] for name in CSV_COLUMNS), strict=True))
            yield text.getvalue()

    def _matches(self, text: str) -> Bools:
        """[row] Whether each word is in the partition's name or the reason. A number is a broker or a number in a name.

        `broker:12` finds the broker alone, because every large topic has a partition 12, too.
        """
        found = np.ones(len(self._bytes), dtype=bool)
        for word in text.lower().split():
            number = word.removeprefix("broker:")
            if not (number.isascii() and number.isdecimal()):
                found &= self._has(self._names, word) | self._has(self._reasons, word)
                continue
            brokers, rows = self._brokers
            hit = np.zeros(len(found), dtype=bool)
            hit[rows[brokers == int(number)]] = True
            if number == word:
                hit |= self._has(self._names, f"(^|[^0-9]){word}([^0-9]|$)", pc.match_substring_regex)
            found &= hit
        return found

    @staticmethod
    def _has(texts: pa.ChunkedArray, pattern: str, match: Callable[..., Any] = pc.match_substring) -> Bools:
        found: Bools = np.asarray(match(texts, pattern))
        return found

    @cached_property
    def _names(self) -> pa.Array:
        """[row] `topic-partition`, in lower case."""
        partition = self.table["partition"].cast(pa.string())
        return pc.utf8_lower(pc.binary_join_element_wise(self.table["topic"], partition, "-"))

    @cached_property
    def _reasons(self) -> pa.Array:
        """[row] In lower case."""
        return pc.utf8_lower(pc.fill_null(self.table["reason"], ""))

    @cached_property
    def _brokers(self) -> tuple[Ints, Ints]:
        """(broker, row) of every replica before and after."""
        brokers, rows = [], []
        for column in ("before", "after"):
            lists = self.table[column]
            brokers.append(pc.list_flatten(lists).to_numpy())
            rows.append(np.repeat(np.arange(len(lists)), pc.list_value_length(lists).to_numpy()))
        return np.concatenate(brokers), np.concatenate(rows)

    @cached_property
    def _groups(self) -> tuple[Ints, list[str]]:
        """([row] number of its group, [group] name), the group with most moves first."""
        texts = pc.fill_null(self.table["reason"], "").combine_chunks()
        kinds = list(dict.fromkeys(words for _, words in REASON_GROUPS))
        kind = np.full(len(texts), -1)
        for says, words in reversed(REASON_GROUPS):
            kind[self._has(texts, says)] = kinds.index(words)
        # The rest are short texts, few of them different.
        other = pc.if_else(pc.equal(texts, ""), NO_REASON, texts).filter(pa.array(kind < 0)).dictionary_encode()
        kind[kind < 0] = len(kinds) + other.indices.to_numpy()
        names, number = [*kinds, *other.dictionary.to_pylist()], kind
        counts = np.bincount(number, minlength=len(names))
        ranked = sorted(np.flatnonzero(counts).tolist(), key=lambda at: (-counts[at], names[at]))
        kept = len(ranked) if len(ranked) <= MOST_GROUPS else MOST_GROUPS - 1
        place = np.full(len(names), kept, dtype=np.int64)
        place[ranked[:kept]] = np.arange(kept)
        return place[number], [names[at] for at in ranked[:kept]] + [OTHER] * (kept < len(ranked))

    def _order(self, sort: str) -> Ints:
        """[place] row"""
        if sort not in self._orders:
            batch, falling = self.table["batch"].to_numpy(), -self._bytes
            first = {"partition": (), "batch": (batch, falling), "reason": (self._groups[0], falling)}
            self._orders[sort] = by_partition(self.table, *first.get(sort, (falling,)))
        return self._orders[sort]


def _most(numbers: NDArray[np.int32]) -> int:
    """How often the most frequent number occurs."""
    return int(np.bincount(numbers).max(initial=0)) if len(numbers) else 0
