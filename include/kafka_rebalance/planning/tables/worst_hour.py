"""The worst hour: the hour of the week, in UTC, in which all partitions together receive most bytes.

Loads of one moment can be compared. The sum of each partition's own peak, of whichever hour, never happens.
Sums are whole bytes a second, so that they are the same in whatever order Spark's tasks add them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints
from kafka_rebalance.planning.problem.topic_rates import HOURS, MIN_WEEKS, MONDAY, TopicRates
from kafka_rebalance.planning.tables.history_table import HISTORY_SCHEMA, WORST_HOUR_SCHEMA

# A longer interval does not say in which hour its records came. A missed sample makes two hours of one.
LONGEST_HOURS = 2

HOURLY = "hourly_bytes_in_per_second"
HOURLY_SCHEMA = pa.schema(
    [
        *HISTORY_SCHEMA,
        *(WORST_HOUR_SCHEMA.field(name) for name in ("weeks", "samples_an_hour")),
        (HOURLY, pa.list_(pa.float64())),  # [hour of the week]; null: not every hour was measured for MIN_WEEKS
    ]
)

_FEWEST_INTERVALS = MIN_WEEKS * HOURS // LONGEST_HOURS  # with less, some hour is not known for MIN_WEEKS
_GROUPS_AT_ONCE = 4096
_HOUR_US = 3_600_000_000


def hourly_columns(group: Ints, ends_at: Ints, length: Ints, appended: Floats, groups: int) -> dict[str, pa.Array]:
    """What HOURLY_SCHEMA adds to HISTORY_SCHEMA, one row for each of `groups`.

    All others are [interval], by group: its group, its end and length in microseconds, and the bytes appended in it.
    These are spread evenly over the interval. `weeks` and `samples_an_hour` are those of the hour that has least; 0 for
    a group with too few intervals to know all hours.
    """
    short = length <= LONGEST_HOURS * _HOUR_US
    short &= (np.bincount(group[short], minlength=groups) >= _FEWEST_INTERVALS)[group]
    which, group = np.unique(group[short], return_inverse=True)
    ends_at, length, appended = ends_at[short], length[short], appended[short]
    weeks, samples, known = np.zeros(groups), np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=bool)
    rates = [np.zeros(0)]
    for first in range(0, len(which), _GROUPS_AT_ONCE):  # all at once would take 4 kB for each
        of = which[first : first + _GROUPS_AT_ONCE]
        rows = slice(*np.searchsorted(group, (first, first + len(of))))
        taken, measured, counts = _by_hour(group[rows] - first, ends_at[rows], length[rows], appended[rows], len(of))
        least = measured.min(axis=1)
        weeks[of], samples[of], known[of] = least / _HOUR_US, counts.min(axis=1), least >= MIN_WEEKS * _HOUR_US
        rates.append((taken[known[of]] * 1e6 / measured[known[of]]).ravel())
    return {
        "weeks": pa.array(weeks),
        "samples_an_hour": pa.array(samples),
        HOURLY: _lists(np.concatenate(rates), known),
    }


def _by_hour(group: Ints, ends_at: Ints, length: Ints, appended: Floats, groups: int) -> tuple[Floats, Ints, Ints]:
    """[group, hour of the week] (bytes, microseconds, intervals)."""
    begins_at, cells = ends_at - length, groups * HOURS
    taken, measured = np.zeros(cells), np.zeros(cells, dtype=np.int64)
    intervals = np.zeros(cells, dtype=np.int64)
    for later in range(LONGEST_HOURS + 1):
        hour = begins_at // _HOUR_US + later
        inside = np.minimum(ends_at, (hour + 1) * _HOUR_US) - np.maximum(begins_at, hour * _HOUR_US)
        held = inside > 0
        cell = (group * HOURS + (hour + MONDAY) % HOURS)[held]
        taken += np.bincount(cell, (appended * inside / np.maximum(length, 1))[held], cells)
        measured += np.bincount(cell, inside[held], cells).astype(np.int64)  # below 2**53, so exact
        intervals += np.bincount(cell, minlength=cells)
    shape = groups, HOURS
    return taken.reshape(shape), measured.reshape(shape), intervals.reshape(shape)


def _lists(values: Floats, known: Bools) -> pa.Array:
    """[row] The next HOURS values where known, else null."""
    offsets = np.r_[0, np.cumsum(known) * HOURS].astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=pa.array(~known))


def hour_totals(rows: pa.Table, elsewhere: Collection[str] = ()) -> Ints | None:
    """[hour of the week] Bytes a second of all rows with rates by hour, without the topics `elsewhere`.

    None if there is no such row.
    """
    if elsewhere:
        rows = rows.filter(pc.invert(pc.is_in(rows["topic"], value_set=pa.array(elsewhere, pa.string()))))
    values = pc.list_flatten(pc.drop_null(rows[HOURLY])).to_numpy()
    if not len(values):
        return None
    totals: Ints = np.rint(values.reshape(-1, HOURS)).astype(np.int64).sum(axis=0)
    return totals


def worst_hour(totals: Iterable[Ints]) -> int | None:
    """The hour with the largest sum, the first of equal ones; None without totals."""
    known = list(totals)
    return int(np.sum(known, axis=0).argmax()) if known else None


def in_worst_hour(rows: pa.Table, server: TopicRates | None = None) -> pa.Table:
    """HISTORY_SCHEMA's columns of HOURLY_SCHEMA's; and WORST_HOUR_SCHEMA's, if samples or server tell hours apart.

    The hours of topics that a metrics server knows are the server's.
    """
    own = hour_totals(rows, () if server is None else server.topics_with_hours)
    totals = (own, None if server is None else server.hour_totals())
    return in_hour(rows, worst_hour(each for each in totals if each is not None))


def in_hour(rows: pa.Table, hour: int | None) -> pa.Table:
    """The same in a given hour."""
    if hour is None:
        return rows.select(HISTORY_SCHEMA.names)
    known = pc.is_valid(rows[HOURLY])
    rates = pc.list_element(pc.if_else(known, rows[HOURLY], None), hour)
    return (
        rows.drop_columns(HOURLY)
        .append_column("worst_hour", pc.if_else(known, pa.scalar(hour, pa.int32()), pa.scalar(None, pa.int32())))
        .append_column("worst_hour_bytes_in_per_second", rates)
        .select([*HISTORY_SCHEMA.names, *WORST_HOUR_SCHEMA.names])
    )
