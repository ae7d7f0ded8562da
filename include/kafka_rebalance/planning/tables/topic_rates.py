"""`topic_rates.parquet` of a snapshot: the bytes in of whole topics, as a metrics server gave them, or why it did not.

The file is there if the connection names a server. Then both ways to plan read it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_rebalance.documents.json_files import decode
from kafka_rebalance.documents.proposals import RatesLeftOut
from kafka_rebalance.documents.storage import Folder, read_if_there, write_whole
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.digests import digest_of_bytes
from kafka_rebalance.planning.problem.arrays import Floats
from kafka_rebalance.planning.problem.topic_rates import HOURS, MIN_WEEKS, MONDAY, PERCENTILE, TopicRates
from kafka_rebalance.planning.tables.checked_columns import LARGEST_AMOUNT, Columns
from kafka_rebalance.planning.tables.parquet_files import parquet_bytes, parquet_table

TOPIC_RATES = "topic_rates.parquet"
_HOURLY = "hourly_bytes_in_per_second"
_TIME = pa.timestamp("us", tz="UTC")
_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        ("hours", pa.int64()),  # with a rate
        ("first_at", _TIME),  # begin of the first of them
        ("last_at", _TIME),  # end of the last
        ("p95_bytes_in_per_second", pa.float64()),
        ("weeks", pa.int64()),  # the least of any hour of the week
        (_HOURLY, pa.list_(pa.float64())),  # [hour of the week] means; null: not each was measured for MIN_WEEKS
    ]
)
_LEFT_OUT, _PROBLEM = b"left_out", b"problem"
_HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True, eq=False)
class HourlyRates:
    """What a server gave."""

    topics: tuple[str, ...]  # sorted; each has a rate
    first_hour: int  # hours since 1970
    rates: Floats  # [topic, hour] bytes a second; NaN: none
    left_out: RatesLeftOut


def write_topic_rates(snapshot_folder: Folder, found: HourlyRates) -> None:
    """Same rates, same bytes."""
    count = (~np.isnan(found.rates)).sum(axis=1)
    first = np.argmax(~np.isnan(found.rates), axis=1)
    last = found.rates.shape[1] - np.argmax(~np.isnan(found.rates[:, ::-1]), axis=1)
    week = (found.first_hour + MONDAY + np.arange(found.rates.shape[1])) % HOURS
    by_hour = [found.rates[:, week == hour] for hour in range(HOURS)]
    weeks = np.stack([(~np.isnan(rates)).sum(axis=1) for rates in by_hour], axis=1).min(axis=1)
    known = weeks >= MIN_WEEKS
    means = np.stack([np.nanmean(rates[known], axis=1) for rates in by_hour], axis=1)
    offsets = np.r_[0, np.cumsum(known) * HOURS].astype(np.int32)
    p95 = np.nanquantile(found.rates, PERCENTILE, axis=1) if len(count) else np.zeros(0)
    columns = [
        pa.array(found.topics, pa.string()),
        pa.array(count),
        *(pa.array((found.first_hour + at) * _HOUR_US).cast(_TIME) for at in (first, last)),
        pa.array(p95),
        pa.array(weeks),
        pa.ListArray.from_arrays(pa.array(offsets), pa.array(means.ravel()), mask=pa.array(~known)),
    ]
    _write(snapshot_folder, pa.table(columns, schema=_SCHEMA), found.left_out, None)


def write_unread(snapshot_folder: Folder, problem: str) -> None:
    """`problem`: why the server could not be read."""
    _write(snapshot_folder, _SCHEMA.empty_table(), RatesLeftOut(), problem)


def _write(folder: Folder, table: pa.Table, left_out: RatesLeftOut, problem: str | None) -> None:
    metadata = {_LEFT_OUT: json.dumps(asdict(left_out)), _PROBLEM: json.dumps(problem)}
    write_whole(folder / TOPIC_RATES, parquet_bytes(table.replace_schema_metadata(metadata)))


def read_topic_rates(snapshot_folder: Folder) -> TopicRates | None:
    """None if there is no such file. Raises ArtifactError, which names the file and the wrong column."""
    content, where = read_if_there(snapshot_folder / TOPIC_RATES), f"{snapshot_folder}/{TOPIC_RATES}"
    if content is None:
        return None
    table = parquet_table(content, where)
    columns, metadata = Columns(table, where), table.schema.metadata or {}
    topics, topic = columns.names("topic")
    columns.check_keys(topic)
    try:
        problem, left_out = json.loads(metadata[_PROBLEM]), json.loads(metadata[_LEFT_OUT])
        knows_hours = pc.list_value_length(table[_HOURLY]).fill_null(0).to_numpy() == HOURS
        by_hour = np.zeros((len(table), HOURS))
        by_hour[knows_hours] = pc.list_flatten(table[_HOURLY]).to_numpy().reshape(-1, HOURS)
        if not ((by_hour >= 0) & (by_hour <= LARGEST_AMOUNT)).all():
            raise ValueError("a rate that is none")
    except (KeyError, ValueError, pa.ArrowException) as wrong:
        raise ArtifactError(
            f"{where} is not what a snapshot writes ({type(wrong).__name__}). Nothing was planned. Start a new Dag run."
        ) from wrong
    order = np.argsort(topic)
    return TopicRates(
        digest=digest_of_bytes(content),
        problem=None if problem is None else str(problem),
        left_out=decode(RatesLeftOut, left_out, where),
        topics=topics,
        hours=columns.integers("hours")[order],
        first_at=columns.times("first_at")[order],
        last_at=columns.times("last_at")[order],
        p95=columns.amounts("p95_bytes_in_per_second", required=True)[0][order],
        by_hour=by_hour[order],
        knows_hours=knows_hours[order],
        weeks=columns.amounts("weeks", required=True)[0][order],
    )
