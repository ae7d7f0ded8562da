"""The long tables of a candidate: searched, sorted, paged, and as CSV files."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafka_rebalance.documents.json_files import decode
from kafka_rebalance.documents.proposals import REASON_GROUPS, CandidatePage, DiskRow
from kafka_rebalance.errors import ArtifactError, InputError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.problem.arrays import Bools, Ints
from kafka_rebalance.planning.tables.result_tables import by_partition, changes_leader, moves_in

# A search in a long table of a candidate: its text, sort, group and page, and the moves that it finds.


PAGE_ROWS = 100
MOST_TEXT, MOST_PAGES = 200, 100_000
SORTS = {  # of moves; the first is the default
    "bytes": "most bytes first",
    "partition": "topic and partition",
    "batch": "batch",
    "reason": "reason",
}


@dataclass(frozen=True, slots=True)
class Query:
    """A search in a long table. The first page is 1; `group` is the number of a ReasonGroup."""

    candidate: str
    sort: str
    text: str = ""
    group: int | None = None
    page: int = 1

    @classmethod
    def of(cls, parameters: Mapping[str, str], sorts: Mapping[str, str]) -> Query:
        """The query in the address of a page. Raises InputError for an unknown sort or a wrong value."""
        sort = parameters.get("sort") or next(iter(sorts))
        if sort not in sorts:
            raise InputError(f"sort is one of {', '.join(sorts)}.")
        text = parameters.get("q", "").strip()
        if len(text) > MOST_TEXT or not text.isprintable():
            raise InputError(f"q has at most {MOST_TEXT} printable characters.")
        group = _number("group", parameters["group"], 0) if parameters.get("group") else None
        return cls(
            parameters.get("candidate", ""), sort, text, group, _number("page", parameters.get("page") or "1", 1)
        )

    def link(self, **changes: str | int | None) -> str:
        """The query with `changes`, for an address; it is the first page unless `changes` name one."""
        other = replace(self, **{"page": 1, **changes})  # type: ignore[arg-type]  # from the templates
        parameters = {"candidate": other.candidate, "q": other.text, "group": other.group, "sort": other.sort}
        parameters |= {"page": other.page if other.page > 1 else None}
        return "?" + urlencode({key: value for key, value in parameters.items() if value not in (None, "")})


def _number(name: str, value: str, least: int) -> int:
    is_number = value.isascii() and value.isdecimal() and len(value) <= len(str(MOST_PAGES))
    if not is_number or int(value) < least:
        raise InputError(f"{name} is a whole number from {least}.")
    return int(value)


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """Moves with one kind of reason; `number` is its number in a query."""

    number: int
    text: str
    moves: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MovesPage:
    """The moves of one page of a query."""

    query: Query
    moves: tuple[Move, ...]
    found: int
    found_bytes: int
    total: int
    groups: tuple[ReasonGroup, ...]  # of all moves that the text finds, in any group

    @property
    def pages(self) -> int:
        return max(1, -(-self.found // PAGE_ROWS))

    @property
    def first(self) -> int:
        """The number of the page's first row, from 1."""
        return (self.query.page - 1) * PAGE_ROWS + 1


# The loads of brokers before, during and after a plan, and the racks where something changes.


MOST_LISTED = 30  # brokers; of more, the page lists only these many of the fullest and of the most changed:
WORST, CHANGED = 10, 10
BROKER_SORTS = {"fullest": "fullest first", "change": "largest change first", "broker": "broker id"}


@dataclass(frozen=True, slots=True)
class Load:
    """What one broker holds. None is unknown."""

    replicas: int
    leaders: int
    size_bytes: int
    bytes_in_per_second: float | None
    bytes_out_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow(Load):
    """A row of the table `loads`: one broker, before or after."""

    broker: int
    phase: str
    rack: str | None = None
    bytes_in_per_second: float | None = None
    disk_capacity_bytes: int | None = None
    nic_in_bytes_per_second: float | None = None
    nic_out_bytes_per_second: float | None = None

    @property
    def load(self) -> Load:
        return Load(*(getattr(self, metric.name) for metric in fields(Load)))


@dataclass(frozen=True, slots=True)
class BrokerChange:
    broker: int
    rack: str | None
    disk_capacity_bytes: int | None
    before: Load
    after: Load
    peak_bytes: int | None = None  # the most while moved replicas exist twice
    nic_in_bytes_per_second: float | None = None  # capacity of its network
    nic_out_bytes_per_second: float | None = None

    @property
    def most_bytes(self) -> int:
        """On its disk, at any time."""
        return max(self.before.size_bytes, self.after.size_bytes, self.peak_bytes or 0)


@dataclass(frozen=True, slots=True)
class RackChange:
    """What the brokers of one rack hold together."""

    rack: str
    brokers: int
    before: Load
    after: Load


@dataclass(frozen=True, slots=True)
class BrokersPage:
    query: Query
    brokers: tuple[BrokerChange, ...]
    total: int

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // PAGE_ROWS))


def broker_changes(
    candidate: str, rows: Iterable[Mapping[str, object]], peaks: Mapping[int, int] | None = None
) -> tuple[BrokerChange, ...]:
    """Rows of the table `loads` of one candidate, paired by broker. `peaks` is each broker's most bytes."""
    by_broker: dict[int, dict[str, LoadRow]] = defaultdict(dict)
    for row in decode(tuple[LoadRow, ...], list(rows), f"loads of {candidate}"):
        by_broker[row.broker][row.phase] = row
    changes = []
    for broker, phases in sorted(by_broker.items()):
        if set(phases) != {"before", "after"}:
            raise ArtifactError(
                f"loads: broker {broker} of {candidate} has the phases {sorted(phases)}, not before and after. "
                "Clear the task plan."
            )
        before, after = phases["before"], phases["after"]
        peak = None if peaks is None else peaks.get(broker)
        networks = after.nic_in_bytes_per_second, after.nic_out_bytes_per_second
        loads = before.load, after.load
        changes.append(BrokerChange(broker, after.rack, after.disk_capacity_bytes, *loads, peak, *networks))
    return tuple(changes)


def listed_brokers(brokers: Sequence[BrokerChange]) -> tuple[BrokerChange, ...]:
    """All by id; of more than MOST_LISTED, the fullest and the most changed, fullest first."""
    if len(brokers) <= MOST_LISTED:
        return tuple(brokers)
    fullest, changed = (_sorted(brokers, sort) for sort in ("fullest", "change"))
    chosen = {broker.broker for broker in (*fullest[:WORST], *changed[:CHANGED])}
    return tuple(broker for broker in fullest if broker.broker in chosen)


def brokers_page(brokers: Sequence[BrokerChange], query: Query) -> BrokersPage:
    """The query's page, or the last page if there are fewer."""
    page = min(query.page, max(1, -(-len(brokers) // PAGE_ROWS)))
    rows = _sorted(brokers, query.sort)[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    return BrokersPage(replace(query, page=page), tuple(rows), len(brokers))


def _sorted(brokers: Sequence[BrokerChange], sort: str) -> list[BrokerChange]:
    """By a key of BROKER_SORTS. Disks are compared by their share in use; disks of unknown size come last, by bytes."""

    def rank(broker: BrokerChange) -> tuple[float, float]:
        if sort == "broker":
            return 0.0, 0.0
        if sort == "change":
            before, after = broker.before, broker.after
            return -abs(after.size_bytes - before.size_bytes), -abs(after.leaders - before.leaders)
        capacity = broker.disk_capacity_bytes
        return float(not capacity), -broker.most_bytes / (capacity or 1)

    return sorted(brokers, key=lambda broker: (*rank(broker), broker.broker))


def rack_changes(brokers: Sequence[BrokerChange]) -> tuple[RackChange, ...]:
    """The racks whose replicas, leaders or bytes change; empty if racks are not known."""
    by_rack: dict[str, list[BrokerChange]] = defaultdict(list)
    for broker in brokers:
        if broker.rack is not None:
            by_rack[broker.rack].append(broker)
    changes = (
        RackChange(rack, len(own), _sum([broker.before for broker in own]), _sum([broker.after for broker in own]))
        for rack, own in sorted(by_rack.items())
    )
    return tuple(change for change in changes if astuple(change.before)[:3] != astuple(change.after)[:3])


def _sum(loads: Sequence[Load]) -> Load:
    rates = ([load.bytes_in_per_second for load in loads], [load.bytes_out_per_second for load in loads])
    return Load(
        sum(load.replicas for load in loads),
        sum(load.leaders for load in loads),
        sum(load.size_bytes for load in loads),
        *(None if None in every else sum(rate or 0.0 for rate in every) for every in rates),
    )


# What pages show of one candidate's tables: its brokers, a summary of its moves, and its fullest disks.


LARGEST_MOVES = 500  # of each candidate; the self-contained file lists them


@dataclass(frozen=True, slots=True)
class MovesSummary:
    """Of all moves of a candidate."""

    partitions: int
    most_partitions_in_a_batch: int
    most_leader_changes_in_a_batch: int
    largest: tuple[Move, ...]  # by bytes to copy, LARGEST_MOVES at most


@dataclass(frozen=True, slots=True)
class CandidateTables:
    """A plan does not change, so this is read once for many pages."""

    brokers: tuple[BrokerChange, ...]
    moves: MovesSummary
    disks: tuple[DiskRow, ...]  # of the brokers that get fullest

    @classmethod
    def of(
        cls,
        candidate: str,
        loads: Iterable[Mapping[str, object]],
        moves: MovesSummary,
        disks: Sequence[Mapping[str, object]],
        peaks: Mapping[int, int] | None = None,
    ) -> CandidateTables:
        """From rows of the tables `loads` and `disk`; `peaks` is each broker's most bytes. Raises ArtifactError."""
        fullest = decode(tuple[DiskRow, ...], disks, f"disk of {candidate}")
        return cls(broker_changes(candidate, loads, peaks), moves, fullest)

    def for_file(self, name: str, digest: str) -> CandidatePage:
        """The candidate's part of page.json, which `from_file` reads."""
        moves = self.moves
        return CandidatePage(
            name,
            digest,
            tuple(astuple(broker) for broker in self.brokers),
            self.disks,
            moves.partitions,
            moves.most_partitions_in_a_batch,
            moves.most_leader_changes_in_a_batch,
            tuple(
                (*move.topic_partition, move.before, move.after, move.size_bytes, move.batch, move.reason, move.leader)
                for move in moves.largest
            ),
        )

    @classmethod
    def from_file(cls, page: CandidatePage) -> CandidateTables:
        brokers = tuple(
            BrokerChange(broker, rack, capacity, Load(*before), Load(*after), peak, nic_in, nic_out)
            for broker, rack, capacity, before, after, peak, nic_in, nic_out in page.brokers
        )
        largest = tuple(Move(TopicPartition(*row[:2]), *row[2:]) for row in page.largest_moves)
        most = page.most_partitions_in_a_batch, page.most_leader_changes_in_a_batch
        return cls(brokers, MovesSummary(page.partitions, *most, largest), page.disks)


NO_TABLES = CandidateTables((), MovesSummary(0, 0, 0, ()), ())


# All moves of one candidate in columns, to search, sort, group and page in a fraction of a second.


MOST_GROUPS = 12
OTHER, NO_REASON = "other reasons", "none given"
CSV_COLUMNS = ("topic", "partition", "bytes", "size_bytes", "before", "after", "batch", "reason")
MOVES_HEAD = (
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
        matching = self._matches(query.text)
        number, labels = self._groups
        counts = np.bincount(number[matching], minlength=len(labels))
        amounts = np.bincount(number[matching], self._bytes[matching], minlength=len(labels))
        groups = tuple(
            ReasonGroup(group, label, int(counts[group]), int(amounts[group]))
            for group, label in enumerate(labels)
            if counts[group]
        )
        if query.group is not None:
            matching &= number == query.group
        order = self._order(query.sort)
        rows = order[matching[order]]
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
        yield ",".join(MOVES_HEAD) + "\r\n"
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
        matching = np.ones(len(self._bytes), dtype=bool)
        for word in text.lower().split():
            number = word.removeprefix("broker:")
            if not (number.isascii() and number.isdecimal()):
                matching &= self._has(self._names, word) | self._has(self._reasons, word)
                continue
            brokers, rows = self._brokers
            hit = np.zeros(len(matching), dtype=bool)
            hit[rows[brokers == int(number)]] = True
            if number == word:
                hit |= self._has(self._names, f"(^|[^0-9]){word}([^0-9]|$)", pc.match_substring_regex)
            matching &= hit
        return matching

    @staticmethod
    def _has(texts: pa.ChunkedArray, pattern: str, match: Callable[..., Any] = pc.match_substring) -> Bools:
        matching: Bools = np.asarray(match(texts, pattern))
        return matching

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
        ranked = sorted(np.flatnonzero(counts).tolist(), key=lambda place: (-counts[place], names[place]))
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


# The CSV files of a candidate. People open them with a spreadsheet, which computes cells that look like formulas.


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")

BROKERS_HEAD = (
    "broker", "rack", "disk_capacity_bytes", "bytes_before", "bytes_at_most", "bytes_after", "leaders_before",
    "leaders_after", "replicas_before", "replicas_after", "bytes_in_per_second_before", "bytes_in_per_second_after",
    "nic_in_bytes_per_second", "bytes_out_per_second_before", "bytes_out_per_second_after", "nic_out_bytes_per_second",
)  # fmt: skip


def brokers_csv(brokers: Iterable[BrokerChange]) -> str:
    """One line for each broker; an unknown value is empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(BROKERS_HEAD)
    for row in brokers:
        writer.writerow(
            (
                row.broker, cell(row.rack or ""), row.disk_capacity_bytes, row.before.size_bytes, row.peak_bytes,
                row.after.size_bytes, row.before.leaders, row.after.leaders, row.before.replicas, row.after.replicas,
                row.before.bytes_in_per_second, row.after.bytes_in_per_second, row.nic_in_bytes_per_second,
                row.before.bytes_out_per_second, row.after.bytes_out_per_second, row.nic_out_bytes_per_second,
            )
        )  # fmt: skip
    return text.getvalue()


def moves_file(candidate: str) -> str:
    return f"moves-{candidate}.csv"


def brokers_file(candidate: str) -> str:
    return f"brokers-{candidate}.csv"


def cell(text: str) -> str:
    """The text, after an apostrophe if a spreadsheet would compute it: a topic or rack may have such a name."""
    return f"'{text}" if text.startswith(_FORMULA) else text
