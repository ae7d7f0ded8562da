"""The planner's tables: Parquet in, Parquet and JSON out. The same writer serves the command line and the Spark job.

Columns are those of `docs/tables.md`; columns beyond them are left alone, optional ones may be missing or null.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_rebalance.documents.json_files import PROPOSALS, TIMINGS, read_json, write_json
from kafka_rebalance.documents.storage import Folder, make_folder, read_bytes, write_whole
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.candidate import Candidate, candidate_digest
from kafka_rebalance.model.digests import digest_of_bytes
from kafka_rebalance.planning.describe.described_candidate import Plan
from kafka_rebalance.planning.evenness.diagnosis import outlook
from kafka_rebalance.planning.evenness.scores import Score
from kafka_rebalance.planning.problem.arrays import METRICS, Problem
from kafka_rebalance.planning.ranking import less_even, ranking
from kafka_rebalance.planning.recommendation import recommend
from kafka_rebalance.planning.tables.move_rows import LATER_MOVES, MOVES_SCHEMA, move_of, move_row

BROKERS, PARTITIONS = "brokers.parquet", "partitions.parquet"
PART = "part-0.parquet"
STATES = ("keep", "new", "drain")

_LOG_DIR = pa.struct([("path", pa.string()), ("total_bytes", pa.int64()), ("usable_bytes", pa.int64())])
SNAPSHOT_SCHEMAS = {
    BROKERS: pa.schema(
        [
            pa.field("broker", pa.int32(), nullable=False),
            pa.field("rack", pa.string()),
            pa.field("state", pa.string()),
            pa.field("disk_capacity_bytes", pa.int64()),
            pa.field("disk_used_bytes", pa.int64()),
            pa.field("log_dirs", pa.list_(_LOG_DIR)),
            pa.field("nic_in_bytes_per_second", pa.float64()),
            pa.field("nic_out_bytes_per_second", pa.float64()),
            pa.field("registration_czxid", pa.int64()),
        ]
    ),
    PARTITIONS: pa.schema(
        [
            pa.field("topic", pa.string(), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("replicas", pa.list_(pa.int32()), nullable=False),
            pa.field("log_dirs", pa.list_(pa.string())),  # of each replica the path
            pa.field("size_bytes", pa.int64()),
            pa.field("isr", pa.list_(pa.int32())),
            pa.field("leader", pa.int32()),
            pa.field("leader_epoch", pa.int32()),
            pa.field("topic_znode_version", pa.int32()),
            pa.field("topic_czxid", pa.int64()),
            pa.field("topic_id", pa.string()),
            pa.field("bytes_in_per_second", pa.float64()),
            pa.field("bytes_out_per_second", pa.float64()),
            pa.field("min_insync_replicas", pa.int32()),
            pa.field("excluded", pa.bool_()),
            pa.field("cleanup_policy", pa.string()),
            pa.field("retention_ms", pa.int64()),
            pa.field("segment_bytes", pa.int64()),
        ]
    ),
}
SCORES_SCHEMA = pa.schema(
    [
        ("candidate", pa.string()),
        ("phase", pa.string()),
        ("metric", pa.string()),
        ("max_over_mean", pa.float64()),
        ("min_over_mean", pa.float64()),
        ("cv", pa.float64()),
    ]
)
_SUMMARY_TYPES = {
    "moved_bytes": pa.int64(),
    "moved_bytes_bound": pa.int64(),
    "cross_rack_bytes": pa.int64(),
    "moved_replicas": pa.int64(),
    "leader_changes": pa.int64(),
    "rack_violations": pa.int64(),
    "crowded_replicas_before": pa.int64(),
    "crowded_replicas": pa.int64(),
    "batches": pa.int64(),
    "makespan_seconds": pa.float64(),
    "makespan_bound_seconds": pa.float64(),
    "peak_disk_fraction": pa.float64(),
    "controller_bytes": pa.int64(),
}
CANDIDATES_SCHEMA = pa.schema(
    [
        ("candidate", pa.string()),
        ("status", pa.string()),
        ("note", pa.string()),
        ("job", pa.string()),
        ("tolerance", pa.float64()),
        ("seed", pa.int64()),
        *_SUMMARY_TYPES.items(),
        ("digest", pa.string()),
    ]
)
LOADS_SCHEMA = pa.schema(
    [
        ("candidate", pa.string()),
        ("phase", pa.string()),
        ("broker", pa.int32()),
        ("rack", pa.string()),
        ("replicas", pa.int64()),
        ("leaders", pa.int64()),
        ("size_bytes", pa.int64()),
        ("bytes_in_per_second", pa.float64()),
        ("leader_bytes_out_per_second", pa.float64()),
        ("disk_capacity_bytes", pa.int64()),
        ("bytes_out_per_second", pa.float64()),  # with what consumers read, or may be taken to
        ("nic_in_bytes_per_second", pa.float64()),
        ("nic_out_bytes_per_second", pa.float64()),
    ]
)
_LATER_LOADS = LOADS_SCHEMA.names[-3:]  # columns that plans of an older version lack
DISK_SCHEMA = pa.schema(
    [
        ("candidate", pa.string()),
        ("batch", pa.int32()),  # 0: every broker before the first; else the brokers that the batch changes
        ("broker", pa.int32()),
        ("peak_bytes", pa.int64()),  # while both copies exist
        ("after_bytes", pa.int64()),
    ]
)


def write_snapshot(
    folder: Folder, broker_rows: Sequence[Mapping[str, Any]], partition_rows: Sequence[Mapping[str, Any]]
) -> str:
    """Writes both tables of a snapshot, rows sorted by their keys; returns the digest of the two files."""
    by_key = (
        (BROKERS, sorted(broker_rows, key=lambda row: row["broker"])),
        (PARTITIONS, sorted(partition_rows, key=lambda row: (row["topic"], row["partition"]))),
    )
    written = []
    for name, rows in by_key:
        schema = SNAPSHOT_SCHEMAS[name]
        unknown = sorted({column for row in rows for column in row} - set(schema.names))
        if unknown:
            raise ArtifactError(f"{name} has no column {', '.join(unknown)}. Nothing was written.")
        written.append(_parquet(pa.Table.from_pylist([dict(row) for row in rows], schema=schema)))
        write_whole(folder / name, written[-1])
    return digest_of_bytes(*written)


def snapshot_digest(folder: Folder) -> str:
    """SHA-256 over both files of the snapshot: what every candidate's digest starts from."""
    return digest_of_bytes(read_file(folder, BROKERS), read_file(folder, PARTITIONS))


def write_results(folder: Folder, problem: Problem, plans: Sequence[Plan]) -> None:
    """Everything that planning leaves in the run's folder, but its timings. Same plans, same bytes."""
    best = recommend(problem.settings, plans)
    moves = [move_row(plan.candidate.name, move) for plan in plans for move in plan.candidate.moves]
    score_rows = [row for plan in plans for row in _score_rows(plan)]
    wide = [_candidate_row(problem, plan.candidate) for plan in plans]
    loads = [row for plan in plans for row in _load_rows(problem, plan)]
    for name, rows, schema in (
        ("moves", moves, MOVES_SCHEMA),
        ("scores", score_rows, SCORES_SCHEMA),
        ("candidates", wide, CANDIDATES_SCHEMA),
        ("loads", loads, LOADS_SCHEMA),
    ):
        write_whole(_made(folder / name) / PART, _parquet(pa.Table.from_pylist(rows, schema=schema)))
    write_whole(_made(folder / "disk") / PART, _parquet(_disk_table(plans)))
    content = {
        "snapshot_digest": problem.snapshot_digest,
        "settings": problem.settings.to_mapping(),
        "recommended": best.candidate,
        "recommendation": best.to_mapping(),
        "ranking": list(ranking(plans, best.candidate)),
        "candidates": [_proposal(plan) for plan in plans],
        "outlook": outlook(problem),
        **({} if problem.history is None else {"history": dict(problem.history)}),
    }
    write_json(folder, PROPOSALS, content)


def write_timings(folder: Folder, seconds: Mapping[str, Any]) -> None:
    """How long each part took; outside every digest."""
    write_json(folder, TIMINGS, {"seconds": dict(seconds)})


def read_candidate(run_folder: Folder, name: str) -> Candidate:
    """One candidate of a run's folder. Refuses one whose moves are not those its digest was taken of."""
    proposals = read_json(run_folder, PROPOSALS)
    found = [entry for entry in proposals.get("candidates", ()) if entry.get("name") == name]
    if not found:
        names = ", ".join(str(entry.get("name")) for entry in proposals.get("candidates", ()))
        raise ArtifactError(f"{run_folder / PROPOSALS} has no candidate {name!r}; there are {names}.")
    entry = found[0]
    moves = tuple(move_of(row) for row in _rows_of(run_folder, "moves", MOVES_SCHEMA, name, LATER_MOVES))
    digest = candidate_digest(name, proposals["snapshot_digest"], proposals["settings"], moves)
    if digest != entry["digest"]:
        raise ArtifactError(
            f"The moves of candidate {name!r} in {run_folder} have digest {digest[:8]}, {PROPOSALS} says "
            f"{str(entry['digest'])[:8]}: one of the files was changed. Nothing was written to the cluster. Plan again."
        )
    summary = {column: entry.get(column) for column in _SUMMARY_TYPES}
    return Candidate(name, digest, entry["status"], moves, entry.get("note", ""), summary)


def read_loads(run_folder: Folder, name: str) -> list[dict[str, Any]]:
    """One row per phase and broker of one candidate, in the columns of LOADS_SCHEMA, or those that its plan had."""
    import pyarrow.compute as pc  # 9 MB, which whoever follows a batch does not need

    table = _table(run_folder, "loads", LOADS_SCHEMA, _LATER_LOADS)
    rows: list[dict[str, Any]] = table.filter(pc.equal(table["candidate"], name)).to_pylist()
    return rows


def _rows_of(
    run_folder: Folder, table: str, schema: pa.Schema, candidate: str, optional: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """One candidate's, a few at a time: as Python objects a large plan takes many times its bytes."""
    for some in _table(run_folder, table, schema, optional).to_batches(max_chunksize=1000):
        # Arrow's own filter would cost the triggerer 50 MB of modules.
        yield from (row for row in some.to_pylist() if row["candidate"] == candidate)


def _table(run_folder: Folder, table: str, schema: pa.Schema, optional: Sequence[str] = ()) -> pa.Table:
    found = parquet_table(read_file(run_folder / table, PART), f"{run_folder / table / PART}")
    known = [column for column in schema.names if column in found.column_names]
    missing = [column for column in schema.names if column not in (*known, *optional)]
    if missing:
        raise ArtifactError(f"{run_folder / table / PART} lacks {', '.join(missing)}. Clear the task that wrote it.")
    return found.select(known)


def _score_rows(plan: Plan) -> list[dict[str, Any]]:
    phases = (("before", plan.scores_before), ("after", plan.scores_after))
    return [
        {"candidate": plan.candidate.name, "phase": phase, "metric": metric, **_figures(score)}
        for phase, by_metric in phases
        for metric, score in by_metric.items()
    ]


def _figures(score: Score) -> dict[str, float]:
    return {"max_over_mean": score.max_over_mean, "min_over_mean": score.min_over_mean, "cv": score.cv}


def _candidate_row(problem: Problem, candidate: Candidate) -> dict[str, Any]:
    settings = problem.settings
    own = {"candidate": candidate.name, "status": candidate.status, "note": candidate.note, "digest": candidate.digest}
    return {**own, "job": settings.job, "tolerance": settings.tolerance, "seed": settings.seed, **candidate.summary}


def _load_rows(problem: Problem, plan: Plan) -> list[dict[str, Any]]:
    rows = []
    networks = [[None if np.isnan(one) else one for one in pair] for pair in problem.networks.tolist()]
    for phase, loads, out in zip(
        ("before", "after"), (plan.loads_before, plan.loads_after), plan.bytes_out, strict=True
    ):
        for number, broker in enumerate(problem.brokers.tolist()):
            load = dict(zip(METRICS, loads[number].tolist(), strict=True))
            capacity = problem.disk_capacity[number]
            row = {
                "candidate": plan.candidate.name,
                "phase": phase,
                "broker": broker,
                "rack": problem.racks[number],
                "replicas": int(load["replicas"]),
                "leaders": int(load["leaders"]),
                "size_bytes": int(load["disk"]),
                "bytes_in_per_second": None if problem.bytes_in is None else load["bytes_in"],
                "leader_bytes_out_per_second": load["leader_bytes_out"]
                if "leader_bytes_out" in plan.scores_before
                else None,
                "disk_capacity_bytes": None if np.isnan(capacity) else int(capacity),
                "bytes_out_per_second": None if out is None else float(out[number]),
                "nic_in_bytes_per_second": networks[number][0],
                "nic_out_bytes_per_second": networks[number][1],
            }
            rows.append(row)
    return rows


def _disk_table(plans: Sequence[Plan]) -> pa.Table:
    tables = []
    for plan in plans:
        if plan.disks is not None:
            disks = plan.disks
            names = pa.repeat(pa.scalar(plan.candidate.name), len(disks.batch))
            columns = [names, disks.batch, disks.broker, disks.peak_bytes, disks.after_bytes]
            tables.append(pa.table([pa.array(column) for column in columns], names=DISK_SCHEMA.names).cast(DISK_SCHEMA))
    return pa.concat_tables([DISK_SCHEMA.empty_table(), *tables]).combine_chunks()


def _proposal(plan: Plan) -> dict[str, Any]:
    candidate = plan.candidate
    phases = (("before", plan.scores_before), ("after", plan.scores_after))
    return {
        "name": candidate.name,
        "digest": candidate.digest,
        "status": candidate.status,
        "note": candidate.note,
        **candidate.summary,
        **plan.consequences,
        "less_even": None if (worse := less_even(plan)) is None else worse.to_mapping(),
        "rack_limits": list(plan.rack_limits),
        "groups": [{"text": group.text, "moves": group.moves, "bytes": group.bytes} for group in plan.groups],
        "scores": {phase: {metric: _figures(score) for metric, score in found.items()} for phase, found in phases},
    }


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def _made(folder: Folder) -> Folder:
    """The folder, made where the storage has folders."""
    make_folder(folder)
    return folder


def read_file(folder: Folder, name: str) -> bytes:
    """Raises ArtifactError where the file is not there, StorageError where storage does not tell."""
    try:
        return read_bytes(folder / name)
    except FileNotFoundError as missing:
        raise ArtifactError(f"{folder / name} cannot be read ({missing}). Nothing was planned.") from missing


def parquet_table(content: bytes, where: str) -> pa.Table:
    """Raises ArtifactError, which names the file (`where`), if its bytes are not Parquet."""
    try:
        # `read_table` would import pandas, as in `columns`.
        return pq.ParquetFile(io.BytesIO(content)).read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as wrong:  # what damaged footers, pages and names raise
        said = " ".join(str(wrong).split())  # Arrow's own texts have several lines
        raise ArtifactError(f"{where} is not a Parquet file ({said}). Nothing was planned.") from wrong
