"""The tables of a plan: their columns, their rows and their readers.

`docs/tables.md` lists the columns. Readers ignore other columns; optional ones may be missing or null.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_rebalance.documents.json_files import PROPOSALS
from kafka_rebalance.documents.proposals import PROPOSALS_FILE, Proposals
from kafka_rebalance.documents.storage import Folder, read_if_there
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.candidate import Candidate, Move, candidate_digest
from kafka_rebalance.model.digests import canonical_json
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.problem.arrays import Bools, Ints
from kafka_rebalance.planning.tables.parquet_files import PART, in_columns, one_array, parquet_table, read_parquet

MOVES_SCHEMA = pa.schema(
    [
        ("candidate", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("before", pa.list_(pa.int32())),
        ("after", pa.list_(pa.int32())),
        ("bytes", pa.int64()),
        ("size_bytes", pa.int64()),
        ("batch", pa.int32()),
        ("reason", pa.string()),
        ("leader", pa.int32()),  # the leader before; null: unknown
    ]
)

_IN_EVERY_MOVE = MOVES_SCHEMA.names[:-2]  # also "reason" may be null
_LATER_MOVES = MOVES_SCHEMA.names[-1:]  # columns that plans of an older version lack
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
    "leader_changes_bound": pa.int64(),
    "rack_violations": pa.int64(),
    "crowded_replicas_before": pa.int64(),
    "crowded_replicas": pa.int64(),
    "excess_leaders_before": pa.int64(),
    "excess_leaders": pa.int64(),
    "batches": pa.int64(),
    "makespan_seconds": pa.float64(),
    "makespan_bound_seconds": pa.float64(),
    "peak_disk_fraction": pa.float64(),
    "controller_bytes": pa.int64(),
    "copies_at_once": pa.int64(),
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
        ("bytes_out_per_second", pa.float64()),  # with what consumers read, known or assumed
        ("nic_in_bytes_per_second", pa.float64()),
        ("nic_out_bytes_per_second", pa.float64()),
    ]
)
_LATER_LOADS = LOADS_SCHEMA.names[-3:]  # columns that plans of an older version lack
DISK_SCHEMA = pa.schema(
    [
        ("candidate", pa.string()),
        ("batch", pa.int32()),  # 0: every broker before the first batch; else the brokers that the batch changes
        ("broker", pa.int32()),
        ("peak_bytes", pa.int64()),  # while both copies exist
        ("after_bytes", pa.int64()),
    ]
)


def disk_table(parts: Iterable[tuple[str, Sequence[Ints]]]) -> pa.Table:
    """The table `disk`. `parts` has each candidate's name, and its columns after the column of names."""
    tables = []
    for name, columns in parts:
        arrays = [pa.repeat(pa.scalar(name), len(columns[0])), *map(pa.array, columns)]
        tables.append(pa.table(arrays, names=DISK_SCHEMA.names).cast(DISK_SCHEMA))
    return pa.concat_tables([DISK_SCHEMA.empty_table(), *tables]).combine_chunks()


def move_of(row: Mapping[str, Any]) -> Move:
    return Move(
        TopicPartition(row["topic"], row["partition"]),
        tuple(row["before"]),
        tuple(row["after"]),
        row["size_bytes"],
        row["batch"],
        row["reason"],
        -1 if row.get("leader") is None else row["leader"],
    )


def moves_of(parts: Iterable[tuple[str, Sequence[Move]]]) -> pa.Table:
    """The table `moves`. `parts` has each candidate's name, and its moves."""
    tables = []
    for name, moves in parts:
        columns = {
            "candidate": [name] * len(moves),
            "topic": [move.topic_partition.topic for move in moves],
            "partition": [move.topic_partition.partition for move in moves],
            "before": [move.before for move in moves],
            "after": [move.after for move in moves],
            "bytes": [move.bytes_to_copy for move in moves],
            "size_bytes": [move.size_bytes for move in moves],
            "batch": [move.batch for move in moves],
            "reason": [move.reason for move in moves],
            "leader": [move.leader if move.leader >= 0 else None for move in moves],
        }
        tables.append(pa.table(columns, schema=MOVES_SCHEMA))
    return pa.concat_tables([MOVES_SCHEMA.empty_table(), *tables]).combine_chunks()


def read_candidate(run_folder: Folder, name: str) -> Candidate:
    """One candidate of a run's folder. Raises ArtifactError if its digest is not the digest of its moves."""
    proposals = PROPOSALS_FILE.read(run_folder)
    entry = next((entry for entry in proposals.candidates if entry.name == name), None)
    if entry is None:
        names = ", ".join(entry.name for entry in proposals.candidates)
        raise ArtifactError(f"{run_folder / PROPOSALS} has no candidate {name!r}; there are {names}.")
    moves = tuple(move_of(row) for row in _rows_of(moves_table(run_folder), name))
    digest = candidate_digest(name, proposals.snapshot_digest, proposals.settings, moves)
    _check_moves_digest(run_folder, name, entry.digest, digest)
    summary = {column: getattr(entry, column) for column in _SUMMARY_TYPES}
    return Candidate(name, digest, entry.status, moves, entry.note, summary)


def _check_moves_digest(run_folder: Folder, name: str, proposed: str, digest: str) -> None:
    """Raises ArtifactError if the moves of that candidate have another digest than in proposals.json."""
    if digest != proposed:
        raise ArtifactError(
            f"The moves of candidate {name!r} in {run_folder} have digest {digest[:8]}, but {PROPOSALS} says "
            f"{proposed[:8]}: somebody changed one of the files. Plan again."
        )


def read_loads(run_folder: Folder, name: str) -> list[dict[str, Any]]:
    """One row per phase and broker of one candidate, in the columns of LOADS_SCHEMA that its plan had."""
    import pyarrow.compute as pc  # 9 MB, which the follower of a batch does not need

    table = _table(run_folder, "loads", LOADS_SCHEMA, _LATER_LOADS)
    rows: list[dict[str, Any]] = table.filter(pc.equal(table["candidate"], name)).to_pylist()
    return rows


def read_fullest_disks(run_folder: Folder, name: str, most: int = 4) -> list[dict[str, Any]]:
    """The rows of DISK_SCHEMA of one candidate, of the `most` brokers whose disks get fullest; fullest first.

    Full is the share of the capacity. Disks of unknown size come last, sorted by bytes. Empty if the run has no such
    table.
    """
    import pyarrow.compute as pc

    table = _disk(run_folder, name)
    peaks = _peaks(table)
    capacities = {row["broker"]: row["disk_capacity_bytes"] for row in read_loads(run_folder, name)} if peaks else {}

    def rank(broker: int) -> tuple[bool, float, int]:
        capacity = capacities.get(broker)
        return not capacity, -peaks[broker] / (capacity or 1), broker

    fullest = sorted(peaks, key=rank)[:most]
    rows: list[dict[str, Any]] = table.filter(pc.is_in(table["broker"], pa.array(fullest, pa.int32()))).to_pylist()
    return sorted(rows, key=lambda row: (fullest.index(row["broker"]), row["batch"]))


def read_disk_peaks(run_folder: Folder, name: str) -> dict[int, int]:
    """{broker: most bytes on its disk while the candidate runs}; empty if the run has no such table."""
    return _peaks(_disk(run_folder, name))


def _disk(run_folder: Folder, name: str) -> pa.Table:
    import pyarrow.compute as pc

    content = read_if_there(run_folder / "disk" / PART)
    if content is None:
        return DISK_SCHEMA.empty_table()
    where = f"{run_folder / 'disk' / PART}"
    table = in_columns(parquet_table(content, where), DISK_SCHEMA, where, (), DISK_SCHEMA.names)
    return table.filter(pc.equal(table["candidate"], name))


def _peaks(disk: pa.Table) -> dict[int, int]:
    found = disk.group_by("broker").aggregate([("peak_bytes", "max")])
    return dict(zip(found["broker"].to_pylist(), found["peak_bytes_max"].to_pylist(), strict=True))


def moves_table(run_folder: Folder) -> pa.Table:
    """The moves of every candidate, in the columns of MOVES_SCHEMA that their plan had."""
    return _table(run_folder, "moves", MOVES_SCHEMA, _LATER_MOVES, _IN_EVERY_MOVE)


def _rows_of(table: pa.Table, candidate: str) -> Iterator[dict[str, Any]]:
    """One candidate's rows, a few at a time: Python objects need many times the bytes of a large plan."""
    for some in table.to_batches(max_chunksize=1000):
        # Arrow's own filter would load 50 MB of modules into the triggerer.
        yield from (row for row in some.to_pylist() if row["candidate"] == candidate)


def _table(
    run_folder: Folder,
    table: str,
    schema: pa.Schema,
    optional: Sequence[str] = (),
    never_null: Sequence[str] = ("candidate",),
) -> pa.Table:
    where = f"{run_folder / table / PART}"
    return in_columns(parquet_table(read_parquet(run_folder / table, PART), where), schema, where, optional, never_null)


# A candidate's moves as columns, read and checked against its digest without a Python object for each move.


COLUMNS = pa.schema([field for field in MOVES_SCHEMA if field.name != "candidate"])


def read_moves(run_folder: Folder, proposals: Proposals, name: str) -> pa.Table:
    """The moves of one candidate of `proposals.json`, in COLUMNS. `read_candidate` gives the same as objects.

    Raises ArtifactError if the candidate's digest is not the digest of these moves.
    """
    found = moves_table(run_folder)
    for field in COLUMNS:
        if field.name not in found.column_names:
            found = found.append_column(field.name, pa.nulls(found.num_rows, field.type))
    table = found.filter(pc.equal(found["candidate"], name)).select(COLUMNS.names).combine_chunks()
    entry = next(candidate for candidate in proposals.candidates if candidate.name == name)
    digest = moves_digest(name, proposals.snapshot_digest, proposals.settings, table)
    _check_moves_digest(run_folder, name, entry.digest, digest)
    return table


def moves_in(table: pa.Table) -> tuple[Move, ...]:
    return tuple(move_of(row) for row in table.to_pylist())


def moves_digest(name: str, snapshot_digest: str, settings: Mapping[str, object], table: pa.Table) -> str:
    """The same as `candidate_digest` of these moves. It builds the canonical JSON column by column."""
    order = by_partition(table, table["batch"].to_numpy())
    topics = one_array(table["topic"]).dictionary_encode()
    quoted = pa.array([canonical_json(topic).decode() for topic in topics.dictionary.to_pylist()], pa.string())
    rows = pc.binary_join_element_wise(
        "[",
        quoted.take(topics.indices),
        ",",
        one_array(table["partition"]).cast(pa.string()),
        ",[",
        _ids(table["before"]),
        "],[",
        _ids(table["after"]),
        "],",
        one_array(table["batch"]).cast(pa.string()),
        _leads_elsewhere(table),
        "]",
        "",
    ).take(pa.array(order))
    written = [canonical_json(value).decode("utf-8", "surrogatepass") for value in (name, settings, snapshot_digest)]
    moves = ",".join(rows.to_pylist())
    text = f'{{"candidate":{written[0]},"moves":[{moves}],"settings":{written[1]},"snapshot":{written[2]}}}'
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def by_partition(table: pa.Table, *first: Ints) -> Ints:
    """The row numbers in the order of `first`, then of topic and partition."""
    topics = one_array(table["topic"]).dictionary_encode()
    names = topics.dictionary.to_pylist()
    rank = np.empty(len(names), dtype=np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    keys = (table["partition"].to_numpy(), rank[topics.indices.to_numpy()], *reversed(first))
    order: Ints = np.lexsort(keys)
    return order


def changes_leader(table: pa.Table) -> Bools:
    """[row] As `Move.changes_leader`."""
    changed: Bools = pc.not_equal(_sources(table), _first(table, "after")).to_numpy(zero_copy_only=False)
    return changed


def _first(table: pa.Table, column: str) -> pa.Array:
    """[row] The first broker of each list."""
    return pc.list_element(one_array(table[column]), 0)


def _sources(table: pa.Table) -> pa.Array:
    """[row] As `Move.source`: the leader before, or else the first replica."""
    first, leader = _first(table, "before"), one_array(table["leader"])
    lists = one_array(table["before"])
    held = pc.equal(pc.list_flatten(lists), leader.take(pc.list_parent_indices(lists)))
    rows = pc.unique(pc.list_parent_indices(lists).filter(pc.fill_null(held, False)))
    leads = pc.is_in(pa.array(range(table.num_rows), rows.type), value_set=rows)
    return pc.if_else(leads, leader, first)


def _leads_elsewhere(table: pa.Table) -> pa.Array:
    """[row] `,2` if broker 2 leads and is not the first replica, else an empty text."""
    source = _sources(table)
    return pc.if_else(
        pc.equal(source, _first(table, "before")), "", pc.binary_join_element_wise(",", source.cast(pa.string()), "")
    )


def _ids(column: pa.ChunkedArray) -> pa.Array:
    """`1,2,3` of each list."""
    return pc.binary_join(one_array(column).cast(pa.list_(pa.string())), ",")
