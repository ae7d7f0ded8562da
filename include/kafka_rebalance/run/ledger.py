"""The ledger of a cluster: the rows that runs leave, and the time estimate that comes from them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafka_rebalance import clock
from kafka_rebalance.documents.json_files import ESTIMATE, JsonFile, Time
from kafka_rebalance.documents.ledger_files import SOURCE_FILE, files_that_count
from kafka_rebalance.documents.storage import file_name, make_folder, names_in, read_bytes, write_whole
from kafka_rebalance.errors import ArtifactError, NothingToDoError, StorageError
from kafka_rebalance.model.candidate import Metric
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.eta import DAYS_COUNTED, run_ratios
from kafka_rebalance.planning.tables.history import SAMPLES_SCHEMA
from kafka_rebalance.planning.tables.parquet_files import parquet_bytes, parquet_table
from kafka_rebalance.run.inputs import Deployment, SparkArguments, StepInputs
from kafka_rebalance.run.run_folder import RunFolder, check_submitted
from kafka_rebalance.run.snapshot_reader import Snapshot, partition_of

log = logging.getLogger(__name__)


# The ledger: what runs measured, proposed, decided and reached, in Parquet tables by cluster and day below `runs_url`.
#
# Each run adds files of its own and never rewrites another's, so any number of runs may write at once. When a day is
# over, Spark merges its many files into one (`spark.ledger_job`).


LEDGER = "ledger"
_DAY = "day="
_LISTINGS = 3  # of one day, while compaction removes its files


class Found(NamedTuple):
    """What a table holds about one cluster."""

    rows: list[dict[str, Any]]  # newest first, with the table's columns
    unreadable: tuple[str, ...]  # files that cannot be read and gave no row: `day=<date>/<file>`


class LedgerColumns(NamedTuple):
    """The same in Arrow, for tables with a row for each partition."""

    table: pa.Table  # in any order
    files: int  # that gave rows
    unreadable: tuple[str, ...]


def folder_of(deployment: Deployment, table: str, connection_id: str) -> RunFolder:
    """The folder of a cluster's rows in a table, with one folder for each day."""
    return deployment.runs_root / LEDGER / table / f"cluster={file_name(connection_id)}"


def append(
    deployment: Deployment,
    table: str,
    connection_id: str,
    run_id: str,
    observed_at: datetime,
    rows: Sequence[Mapping[str, Any]],
) -> RunFolder:
    """Adds one file of rows to a table; returns its path.

    `ledger/<table>/cluster=<connection>/day=<date>/<run>.parquet`: the path gives cluster and day.
    The same run replaces its own file, so a cleared task counts once.
    """
    folder = folder_of(deployment, table, connection_id) / f"{_DAY}{observed_at:%Y-%m-%d}"
    make_folder(folder)
    content = [{"observed_at": observed_at, **row} for row in rows]
    path = folder / f"{file_name(run_id)}.parquet"
    write_whole(path, parquet_bytes(pa.Table.from_pylist(content, schema=TABLES[table]), page_checksums=True))
    return path


def locate(inputs: StepInputs) -> None:
    """Tells the next task where the ledger is. NothingToDoError: there is no ledger."""
    place = inputs.deployment.runs_root / LEDGER
    if not names_in(place):
        raise NothingToDoError("There is no ledger yet")
    inputs.tell("ledger", str(place))


def check_located(inputs: StepInputs, submit: SparkArguments) -> None:
    """Raises RunFolderError unless the XCom gives Spark this ledger."""
    place = inputs.deployment.runs_root / LEDGER
    check_submitted(submit, list(submit.application_args) == ["--ledger", str(place)])


def read_columns(
    deployment: Deployment, table: str, connection_id: str, days: float, *, now: datetime | None = None
) -> LedgerColumns:
    """As `read`, without a Python object for each row."""
    oldest = (now or clock.utc_now()) - timedelta(days=days)
    folder, schema = folder_of(deployment, table, connection_id), TABLES[table]
    tables_so_far: list[pa.Table] = []
    unreadable: list[str] = []
    for day in names_in(folder):
        if (date_of(day) or date.min) >= oldest.date():
            tables, broken = _tables_of_day(folder / day, schema)
            tables_so_far += tables
            unreadable += [f"{day}/{name}" for name in broken]
    whole = pa.concat_tables([schema.empty_table(), *tables_so_far])
    recent = whole.filter(pc.greater_equal(whole["observed_at"], pa.scalar(oldest, schema.field("observed_at").type)))
    return LedgerColumns(recent, len(tables_so_far), tuple(unreadable))


def read(deployment: Deployment, table: str, connection_id: str, days: float, *, now: datetime | None = None) -> Found:
    """A cluster's rows of the last `days` days; none if nothing was written yet.

    A file that cannot be read is logged and named in the result. The other files are still read. Raises StorageError
    if a folder cannot be listed, because that does not mean "nothing there".
    """
    columns = read_columns(deployment, table, connection_id, days, now=now)
    rows = sorted(columns.table.to_pylist(), key=lambda row: row["observed_at"], reverse=True)
    return Found(rows, columns.unreadable)


def _tables_of_day(folder: RunFolder, schema: pa.Schema) -> tuple[list[pa.Table], list[str]]:
    """The rows that count, by file, and the names of unreadable files. Compaction may remove files meanwhile."""
    for _ in range(_LISTINGS):
        names = [name for name in names_in(folder) if name.endswith(".parquet")]
        tables: list[pa.Table] = []
        unreadable, gone = [], False
        for name in files_that_count(names):
            try:
                tables.append(_rows_that_count(read_bytes(folder / name), name, names, schema))
            except FileNotFoundError:
                gone = True
                unreadable.append(name)
            except ArtifactError as wrong:  # or StorageError
                log.warning("%s cannot be read and is left out: %s", folder / name, wrong)
                unreadable.append(name)
        if not gone:
            break
    return tables, unreadable


def _rows_that_count(content: bytes, name: str, names: Sequence[str], schema: pa.Schema) -> pa.Table:
    """A file's rows in the schema's columns, null for missing ones. Raises ArtifactError.

    `names` are the day's files. A compacted file gives no row whose own file is still one of them.
    """
    table = parquet_table(content, name)
    try:
        columns = [
            table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
            for field in schema
        ]
        rows = pa.table(columns, schema=schema)
        if rows["observed_at"].null_count:
            raise ValueError("a row without observed_at")
        if SOURCE_FILE not in table.column_names:
            return rows
        beside = pc.is_in(table[SOURCE_FILE].cast(pa.string()), value_set=pa.array(names, pa.string()))
        return rows.filter(pc.invert(beside))
    except (ValueError, LookupError, pa.ArrowException) as wrong:  # LookupError: two columns of one name
        raise ArtifactError(f"{name} is no file of this table ({wrong}).") from wrong


def date_of(folder: str) -> date | None:
    try:
        return date.fromisoformat(folder.removeprefix(_DAY)) if folder.startswith(_DAY) else None
    except ValueError:
        return None


# The columns of the ledger's tables. Files of earlier versions give null for a column that was added later.


_TIME = pa.timestamp("us", tz="UTC")


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema({"observed_at": _TIME, **columns})


TABLES = {
    "audits": _schema(
        rule=pa.string(),
        severity=pa.string(),
        topics=pa.int64(),
        topic=pa.string(),  # the first of these topics
        brokers=pa.list_(pa.int32()),
        finding=pa.string(),
        source=pa.string(),
    ),
    "balance": _schema(  # one row for each check; skew: how far the worst broker is from its share, as a part of it
        run_id=pa.string(),
        imbalance=pa.float64(),  # the highest skew
        resource=pa.string(),  # the one with the highest skew
        **{f"skew_{metric}": pa.float64() for metric in Metric},  # null: unknown
        rack_violations=pa.int64(),
        limit=pa.float64(),
        past_limit=pa.bool_(),
        brokers_away=pa.list_(pa.int32()),  # not registered though they hold replicas
        brokers_up=pa.list_(pa.int32()),  # registered; null: an earlier version
        brokers_behind=pa.list_(pa.int32()),  # of these, with replicas out of the ISR
        brokers_unread=pa.list_(pa.int32()),  # registered, but not measured: they did not report their log dirs
        fullest_disk_broker=pa.int32(),
        fullest_disk_share=pa.float64(),  # in use, of all log dirs of this broker
        first_full_broker=pa.int32(),  # whose disk is full first if its partitions keep growing as before
        first_full_days=pa.float64(),  # from the check on
    ),
    "decisions": _schema(  # one row for each answer, or a request that nobody answered
        dag_id=pa.string(),
        run_id=pa.string(),
        choice=pa.string(),  # a candidate, an action or Reject; null if expired, failed or refused
        digest=pa.string(),
        by=pa.string(),
        at=_TIME,
        note=pa.string(),
        expired=pa.bool_(),
        refused=pa.string(),  # why an answer did not count; null if it did
        throttle_bytes_per_second=pa.int64(),
    ),
    "log_dirs": _schema(  # one row for each run between log dirs, at its end
        run_id=pa.string(),
        job=pa.string(),
        digest=pa.string(),
        requested_by=pa.string(),
        approved_by=pa.string(),
        verified=pa.bool_(),
        brokers=pa.list_(pa.int32()),
        replicas=pa.int64(),
        in_place=pa.int64(),  # of these; null: the brokers could not be read
        predicted_bytes=pa.int64(),
        copied_bytes=pa.int64(),  # as planned, of the replicas in place
        predicted_seconds=pa.float64(),  # at the approved rate, without pauses
        began_at=_TIME,  # when the rate was set; null: never
        ended_at=_TIME,  # when it was put back, with all pauses before; null: not yet
        throttle_bytes_per_second=pa.int64(),
    ),
    "metrics": SAMPLES_SCHEMA,
    "outcomes": _schema(
        run_id=pa.string(),
        candidate=pa.string(),
        digest=pa.string(),
        approved_by=pa.string(),
        verified=pa.bool_(),
        predicted_bytes=pa.int64(),
        copied_bytes=pa.int64(),  # as measured, plus the planned bytes of copies without a measurement
        unmeasured_bytes=pa.int64(),  # this planned part; null: a version that measured nothing
        predicted_seconds=pa.float64(),
        actual_seconds=pa.float64(),
        partitions=pa.int64(),
        batches=pa.int64(),
        throttle_bytes_per_second=pa.int64(),
        slow_brokers=pa.list_(pa.int32()),  # by what its copies have shown, of
        judged_brokers=pa.list_(pa.int32()),  # these; null: a version that judged none
    ),
    "plans": _schema(
        run_id=pa.string(),
        candidate=pa.string(),
        digest=pa.string(),
        status=pa.string(),
        recommended=pa.bool_(),
        moved_bytes=pa.int64(),
        moved_bytes_bound=pa.int64(),
        moved_replicas=pa.int64(),
        leader_changes=pa.int64(),
        makespan_seconds=pa.float64(),
        disk_max_over_mean_before=pa.float64(),
        disk_max_over_mean_after=pa.float64(),
    ),
    "topics": _schema(
        run_id=pa.string(),
        topic=pa.string(),
        action=pa.string(),
        digest=pa.string(),
        requested_by=pa.string(),
        approved_by=pa.string(),  # null: this action needs no approval
        partitions_before=pa.int64(),
        partitions_after=pa.int64(),
        configs_changed=pa.int64(),
        verified=pa.bool_(),
    ),
}


# What one snapshot measures of each partition, for the ledger: sizes, offsets, and what groups have committed.


def metric_rows(taken: Snapshot) -> list[dict[str, Any]]:
    """Rows of the ledger's table `metrics`, for partitions of known size. Rates need two samples, so no row has one."""
    local = taken.local_starts
    return [
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "size_bytes": row["size_bytes"],
            "end_offset": taken.end_offsets.get(partition_of(row)),
            # Without the local one, nobody may take the whole log's for it, not even if the topic has one tier by then.
            "start_offset": None if partition_of(row) in local.untold else taken.start_offsets.get(partition_of(row)),
            "local_start_offset": local.offsets.get(partition_of(row)),
            "topic_czxid": row["topic_czxid"],
            **_commits(taken, partition_of(row)),
        }
        for row in taken.partitions
        if row["size_bytes"] is not None
    ]


def _commits(taken: Snapshot, topic_partition: TopicPartition) -> dict[str, int]:
    """The sum over the groups, how many they are, and which: two samples of the same groups can be compared."""
    if taken.committed is None:
        return {}
    groups = taken.committed.get(topic_partition, {})
    return {
        "committed_offsets": sum(groups.values()),
        "committed_groups": len(groups),
        "committed_digest": int(digest_of(sorted(groups))[:12], 16),
    }


# Writes estimate.json: how long the next run of a cluster will take, from its earlier runs.


LAST_RUNS = 5
_SHOWN = (
    *("run_id", "candidate", "verified", "predicted_bytes", "copied_bytes", "unmeasured_bytes"),
    *("predicted_seconds", "actual_seconds"),
)


def write_estimate(deployment: Deployment, folder: RunFolder, connection_id: str, run_id: str, now: datetime) -> None:
    """Uses the ledger's outcomes, without this run's own.

    An unreadable ledger stops no plan. The file names it, and the approver reads that the range is assumed.
    """
    try:
        rows, unreadable = read(deployment, "outcomes", connection_id, DAYS_COUNTED, now=now)
        problems = [f"{name} of the ledger's outcomes cannot be read" for name in unreadable]
    except StorageError as wrong:
        rows, problems = [], [str(wrong)]
    earlier = [row for row in rows if row["run_id"] != run_id]
    last = tuple(
        PastRun(recorded_at=row["observed_at"].replace(microsecond=0), **{key: row[key] for key in _SHOWN})
        for row in earlier[:LAST_RUNS]
    )
    ESTIMATE_FILE.write(folder, Estimate(tuple(run_ratios(earlier)), last, tuple(problems)))


# estimate.json: how long earlier runs of a cluster took, beside what they had predicted.


@dataclass(frozen=True, slots=True)
class PastRun:
    """What an earlier run was to copy, in which time, and what became of it; None: unknown."""

    run_id: str
    candidate: str
    recorded_at: Time
    verified: bool
    predicted_bytes: int | None
    copied_bytes: int | None
    predicted_seconds: float | None
    actual_seconds: float | None
    unmeasured_bytes: int | None = None  # the part of `copied_bytes` that is only planned; None: all (older versions)

    @property
    def is_as_planned(self) -> bool:
        """Whether nobody measured what was copied."""
        return bool(self.copied_bytes) and self.unmeasured_bytes in (None, self.copied_bytes)


@dataclass(frozen=True, slots=True)
class Estimate:
    """`ratios`: actual over predicted seconds of the cluster's earlier runs. `last`: the newest of these runs."""

    ratios: tuple[float, ...]
    last: tuple[PastRun, ...]
    problems: tuple[str, ...]  # what could not be read of the ledger, in words


ESTIMATE_FILE = JsonFile(ESTIMATE, Estimate)
