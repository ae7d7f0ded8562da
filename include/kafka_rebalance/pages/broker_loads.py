"""The loads of brokers before, during and after a plan, and the racks where something changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace

from kafka_rebalance.documents.json_files import decode
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.pages.search_query import PAGE_ROWS, Query

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
        return Load(*(getattr(self, one.name) for one in fields(Load)))


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
    found: dict[int, dict[str, LoadRow]] = defaultdict(dict)
    for row in decode(tuple[LoadRow, ...], list(rows), f"loads of {candidate}"):
        found[row.broker][row.phase] = row
    changes = []
    for broker, phases in sorted(found.items()):
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
    found = (
        RackChange(rack, len(own), _sum([one.before for one in own]), _sum([one.after for one in own]))
        for rack, own in sorted(by_rack.items())
    )
    return tuple(one for one in found if astuple(one.before)[:3] != astuple(one.after)[:3])


def _sum(loads: Sequence[Load]) -> Load:
    rates = ([one.bytes_in_per_second for one in loads], [one.bytes_out_per_second for one in loads])
    return Load(
        sum(one.replicas for one in loads),
        sum(one.leaders for one in loads),
        sum(one.size_bytes for one in loads),
        *(None if None in every else sum(rate or 0.0 for rate in every) for every in rates),
    )
