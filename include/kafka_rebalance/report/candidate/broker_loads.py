"""Brokers before, during and after a plan: of many, those that matter most; racks where something changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kafka_rebalance.documents.json_files import decode
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.report.candidate.search_query import PAGE_ROWS, Query

MOST_LISTED = 30  # so many brokers are listed whole
WORST, CHANGED = 10, 10  # of more, these


BROKER_SORTS = {"fullest": "fullest first", "change": "largest change first", "broker": "broker id"}


@dataclass(frozen=True, slots=True)
class Load:
    """What one broker holds. Bytes of its replicas, bytes a second that come in and go out (None where unknown)."""

    replicas: int
    leaders: int
    size_bytes: int
    bytes_in_per_second: float | None
    bytes_out_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow:
    """A row of the table `loads`: of one broker, before or after."""

    broker: int
    phase: str
    rack: str | None = None
    replicas: int
    leaders: int
    size_bytes: int
    bytes_in_per_second: float | None = None
    bytes_out_per_second: float | None = None
    disk_capacity_bytes: int | None = None
    nic_in_bytes_per_second: float | None = None
    nic_out_bytes_per_second: float | None = None

    @property
    def load(self) -> Load:
        known = self.bytes_in_per_second, self.bytes_out_per_second
        return Load(self.replicas, self.leaders, self.size_bytes, *known)


@dataclass(frozen=True, slots=True)
class BrokerChange:
    broker: int
    rack: str | None
    disk_capacity_bytes: int | None
    before: Load
    after: Load
    peak_bytes: int | None = None  # while both copies of what moves are there; None: unknown
    nic_in_bytes_per_second: float | None = None  # what its network takes; None: unknown
    nic_out_bytes_per_second: float | None = None

    @property
    def most_bytes(self) -> int:
        """On its disk: before, after or in between."""
        return max(self.before.size_bytes, self.after.size_bytes, self.peak_bytes or 0)


@dataclass(frozen=True, slots=True)
class RackChange:
    """What the brokers of one rack hold together, before and after."""

    rack: str
    brokers: int
    before: Load
    after: Load


@dataclass(frozen=True, slots=True)
class BrokersPage:
    """What a query finds."""

    query: Query
    brokers: tuple[BrokerChange, ...]
    total: int

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // PAGE_ROWS))


def broker_changes(
    candidate: str, rows: Iterable[Mapping[str, object]], peaks: Mapping[int, int] | None = None
) -> tuple[BrokerChange, ...]:
    """Rows of the table `loads` of one candidate, paired by broker; `peaks` are its bytes at most while it runs."""
    found: dict[int, dict[str, LoadRow]] = defaultdict(dict)
    for row in decode(tuple[LoadRow, ...], list(rows), f"loads of {candidate}"):
        found[row.broker][row.phase] = row
    changes = []
    for broker, phases in sorted(found.items()):
        if set(phases) != {"before", "after"}:
            raise ArtifactError(
                f"loads: broker {broker} of {candidate} has the phases {sorted(phases)}, not before and after. "
                "Nothing was written to the cluster. Clear the task plan."
            )
        before, after = phases["before"], phases["after"]
        peak = None if peaks is None else peaks.get(broker)
        networks = after.nic_in_bytes_per_second, after.nic_out_bytes_per_second
        loads = before.load, after.load
        changes.append(BrokerChange(broker, after.rack, after.disk_capacity_bytes, *loads, peak, *networks))
    return tuple(changes)


def listed_brokers(brokers: Sequence[BrokerChange]) -> tuple[BrokerChange, ...]:
    """All by id; of more than MOST_LISTED the fullest and those that change most, fullest first."""
    if len(brokers) <= MOST_LISTED:
        return tuple(brokers)
    fullest, changed = (_sorted(brokers, sort) for sort in ("fullest", "change"))
    chosen = {broker.broker for broker in (*fullest[:WORST], *changed[:CHANGED])}
    return tuple(broker for broker in fullest if broker.broker in chosen)


def brokers_page(brokers: Sequence[BrokerChange], query: Query) -> BrokersPage:
    """The query's page; of one beyond the last, the last."""
    page = min(query.page, max(1, -(-len(brokers) // PAGE_ROWS)))
    rows = _sorted(brokers, query.sort)[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    return BrokersPage(replace(query, page=page), tuple(rows), len(brokers))


def _sorted(brokers: Sequence[BrokerChange], sort: str) -> list[BrokerChange]:
    """In the order of BROKER_SORTS. How full is against the capacity; behind come disks of unknown size, by bytes."""

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
    """The racks that hold something else after than before; none where racks are not known."""
    by_rack: dict[str, list[BrokerChange]] = defaultdict(list)
    for broker in brokers:
        if broker.rack is not None:
            by_rack[broker.rack].append(broker)
    made = (
        RackChange(rack, len(own), _sum([one.before for one in own]), _sum([one.after for one in own]))
        for rack, own in sorted(by_rack.items())
    )
    return tuple(
        rack
        for rack in made
        if (rack.before.replicas, rack.before.leaders, rack.before.size_bytes)
        != (rack.after.replicas, rack.after.leaders, rack.after.size_bytes)
    )


def _sum(loads: Sequence[Load]) -> Load:
    return Load(
        sum(load.replicas for load in loads),
        sum(load.leaders for load in loads),
        sum(load.size_bytes for load in loads),
        _total([load.bytes_in_per_second for load in loads]),
        _total([load.bytes_out_per_second for load in loads]),
    )


def _total(rates: Sequence[float | None]) -> float | None:
    return None if None in rates else sum(rate or 0.0 for rate in rates)
