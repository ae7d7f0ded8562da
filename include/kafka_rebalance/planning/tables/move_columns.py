"""A candidate's moves as columns, read and checked against its digest without a Python object for each move."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.digests import canonical_json
from kafka_rebalance.planning.problem.arrays import Bools, Ints
from kafka_rebalance.planning.tables.checked_columns import one_array
from kafka_rebalance.planning.tables.result_tables import (
    MOVES_SCHEMA,
    check_moves_digest,
    move_of,
    moves_table,
)

COLUMNS = pa.schema([field for field in MOVES_SCHEMA if field.name != "candidate"])


def read_moves(run_folder: Folder, proposals: Mapping[str, Any], name: str) -> pa.Table:
    """The moves of one candidate of `proposals.json`, in COLUMNS. `read_candidate` gives the same as objects.

    Raises ArtifactError if the candidate's digest is not the digest of these moves.
    """
    found = moves_table(run_folder)
    for field in COLUMNS:
        if field.name not in found.column_names:
            found = found.append_column(field.name, pa.nulls(found.num_rows, field.type))
    table = found.filter(pc.equal(found["candidate"], name)).select(COLUMNS.names).combine_chunks()
    entry = next(candidate for candidate in proposals["candidates"] if candidate["name"] == name)
    digest = moves_digest(name, proposals["snapshot_digest"], proposals["settings"], table)
    check_moves_digest(run_folder, name, str(entry["digest"]), digest)
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
