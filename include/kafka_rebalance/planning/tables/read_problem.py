"""The snapshot's tables as the planner's arrays.

`docs/tables.md` lists the columns. The reader ignores other columns; optional ones may be missing or null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_rebalance.documents.storage import Folder, write_whole
from kafka_rebalance.errors import ArtifactError, PlanningError
from kafka_rebalance.kafka.topics import BY_NAME
from kafka_rebalance.kafka.who_may_receive import Shut, open_log_dirs, why_shut
from kafka_rebalance.model.digests import digest_of_bytes
from kafka_rebalance.model.finding import listed
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import LEADERS_ALONE, REPLACE_LOG_DIR, SEARCHED, Settings, matches
from kafka_rebalance.planning.problem.arrays import (
    Bools,
    DirContents,
    EarlierPlans,
    Floats,
    Ints,
    LogDirs,
    Problem,
    Rates,
    Waiting,
    changed_lists,
    naming,
    widened,
)
from kafka_rebalance.planning.problem.pools import pools_of
from kafka_rebalance.planning.tables.parquet_files import Columns, LogDirRow, parquet_bytes, parquet_table, read_parquet

_LARGEST_TOTAL = 2.0**60  # an exbibyte


def read_problem(folder: Folder, settings: Settings) -> Problem:
    """The snapshot as arrays. Raises ArtifactError, which names the file and the wrong column.

    Raises PlanningError if job `replace_log_dir` cannot know which replicas lie on log dirs that are offline.
    """
    files = [read_parquet(folder, BROKERS), read_parquet(folder, PARTITIONS)]
    brokers, partitions = (
        Columns(parquet_table(content, f"{folder / name}"), f"{folder}/{name}")
        for content, name in zip(files, (BROKERS, PARTITIONS), strict=True)
    )
    ids = brokers.integers("broker")
    brokers.check_keys(ids)
    topics, topic = partitions.names("topic")
    partition = partitions.integers("partition")
    partitions.check_keys(topic, partition)
    order = np.lexsort((partition, topic))
    lists, in_isr = partitions.lists("replicas")[order], partitions.optional_lists("isr")[order]
    named = np.unique(np.concatenate([ids, lists[lists >= 0]]))
    at = np.searchsorted(named, ids)
    registered = np.isin(named, ids)
    size, size_known = partitions.amounts("size_bytes", required=True)
    _check_total(size[order], lists)
    excluded = partitions.flags("excluded")[order]
    state, racks = brokers.texts("state", allowed=tuple(BrokerState)), brokers.texts("rack")
    leaving = np.isin(named, list(settings.leaving))
    if not settings.drain:
        # The settings win over the table.
        said = np.isin(ids, [*settings.brokers_out, *settings.replace.values()])
        leaving[at] |= np.array([value == BrokerState.DRAIN for value in state], dtype=bool) & ~said

    def matched(selects: Callable[[str], bool]) -> Bools:
        """[partition row] Whether `selects` is true of its topic."""
        chosen: Bools = np.array([selects(name) for name in topics], dtype=bool)[topic[order]]
        return chosen

    def stated(column: str) -> Floats:
        """[broker] In the order of ids; NaN: unknown."""
        values, known = brokers.amounts(column)
        spread = np.full(len(named), np.nan)
        spread[at] = np.where(known, values, np.nan)
        return spread

    bytes_in, bytes_out = (partitions.amounts(f"bytes_{way}_per_second") for way in ("in", "out"))
    own_bytes = size[order].astype(np.int64)
    settings = settings.for_brokers(len(ids))
    dirs = list(zip(at.tolist(), brokers.log_dirs(), strict=True))
    replicas = np.where(lists >= 0, np.searchsorted(named, np.maximum(lists, 0)), -1)
    by_id = dict(zip(ids.tolist(), racks, strict=True))
    shut = {broker: why for broker, all_dirs in dirs if all_dirs and (why := why_shut(all_dirs)) is not None}
    cordoned = np.isin(np.arange(len(named)), [broker for broker, why in shut.items() if why is Shut.CORDONED])
    if settings.job not in LEADERS_ALONE:
        cordoned &= ~leaving  # lists without a broker that leaves are taken
    movable = matched(settings.selects) & ~excluded
    offline = np.isin(
        np.arange(len(named)), [broker for broker, all_dirs in dirs if not all(one.online for one in all_dirs)]
    )
    failed = np.empty((len(lists), 0), dtype=np.int64)
    if settings.job == REPLACE_LOG_DIR:
        untold = set(np.arange(len(named))[registered].tolist()) - {broker for broker, all_dirs in dirs if all_dirs}
        failed = _on_offline_dirs(partitions, order, replicas, offline, movable, named[sorted(untold)])
    # Kafka refuses every new list with a cordoned broker, also for a replica that lies there (seen on 4.4.0).
    stuck = naming(replicas, cordoned)
    return Problem(
        settings=settings,
        snapshot_digest=digest_of_bytes(*files),
        topics=topics,
        topic=topic[order],
        partition=partition[order],
        replicas=replicas,
        leader=_leaders(lists, replicas, partitions.optional_ids("leader")[order]),
        size_bytes=own_bytes,
        rates=Rates(
            bytes_in[0][order],
            bytes_out[0][order],
            knows_in=bool(bytes_in[1].any()),
            knows_out=bool(bytes_out[1].any()),
            lasting_bytes=own_bytes,
            growth_bytes_per_day=np.zeros(len(own_bytes)),
            knows_growth=False,
        ),
        movable=movable & ~stuck,
        pinned=matched(partial(matches, globs=settings.pinned_topics)),
        rack_pinned=matched(partial(matches, globs=settings.rack_pinned_topics)),
        in_sync=_in_sync(lists, in_isr),
        min_insync=partitions.amounts("min_insync_replicas")[0][order].astype(np.int64),
        unknown_sizes=int((~size_known).sum()),
        brokers=named,
        racks=tuple(by_id.get(broker) for broker in named.tolist()),
        registered=registered,
        leaving=leaving,
        closed=np.isin(named, list(settings.brokers_out)) | (cordoned & ~leaving),
        disk_capacity=stated("disk_capacity_bytes"),
        disk_used=stated("disk_used_bytes"),
        log_dirs=_log_dirs(dirs, len(named), settings.disk_headroom),
        dir_contents=_dir_contents(dirs, partitions, order, replicas, size[order]),
        failed=failed,
        networks=np.stack([stated("nic_in_bytes_per_second"), stated("nic_out_bytes_per_second")], axis=1),
        only_receivers=_only_receivers(settings, named, replicas) & ~(offline & bool(failed.size)),
        shut=shut,
        pools=pools_of(settings.broker_pools, topics, named),
        earlier=EarlierPlans(
            _left(settings, named, replicas, leaving, partitions.optional_lists("left_brokers")[order]),
            _proposed(named, replicas, {name: partitions.optional_lists(c)[order] for name, c in PROPOSED.items()}),
        ),
        waits=_waits(topics, topic[order], partition[order], partitions, order),
        kafkas_own=_kafkas_own(topics, topic, partitions.flags("kafkas_own")),
        has_topic_ids=partitions.all_known("topic_id"),
    )


def _kafkas_own(topics: Sequence[str], topic: Ints, told: Bools) -> frozenset[str]:
    """By their names, and where only the brokers know it, by the snapshot."""
    named = {topics[number] for number in np.unique(topic[told]).tolist()}
    return frozenset(named | {name for name in topics if BY_NAME.holds_back(name)})


def _only_receivers(settings: Settings, ids: Ints, replicas: Ints) -> Bools:
    """[broker] The brokers that alone may receive replicas; all if the settings name none."""
    receivers = settings.receivers(ids[~np.isin(np.arange(len(ids)), replicas)].tolist())
    return np.ones(len(ids), dtype=bool) if receivers is None else np.isin(ids, list(receivers))


def _waits(topics: Sequence[str], topic: Ints, partition: Ints, columns: Columns, order: Ints) -> tuple[Waiting, ...]:
    away, deleted = columns.optional_lists("waits_for")[order], columns.flags("being_deleted")[order]
    return tuple(
        Waiting(
            TopicPartition(topics[topic[row]], int(partition[row])),
            tuple(broker for broker in away[row].tolist() if broker >= 0),
            bool(deleted[row]),
        )
        for row in np.flatnonzero((away >= 0).any(axis=1))
    )


def _left(settings: Settings, ids: Ints, replicas: Ints, leaving: Bools, brokers: Ints) -> Ints:
    """[row, n] The brokers that each partition has left lately and may not go back to; n is 0 if there are none.

    They count for job `balance` alone, and not while a broker is to be emptied: other jobs need every broker that there
    is. A broker that holds the partition again is none of them.
    """
    if settings.job != "balance" or leaving.any():
        return brokers[:, :0]
    at = np.minimum(np.searchsorted(ids, brokers), len(ids) - 1)
    away = (brokers >= 0) & (ids[at] == brokers) & ~(replicas[:, None, :] == at[:, :, None]).any(axis=2)
    return np.where(away, at, -1) if away.any() else brokers[:, :0]


def _proposed(ids: Ints, replicas: Ints, columns: Mapping[str, Ints]) -> Mapping[str, Ints]:
    """{candidate: [row, position] the list proposed last, as broker indices; -1 past the end, and where there is none}

    A list that names a broker which is gone counts for nothing, and neither does one that the partition has already.
    """
    found = {}
    for name, lists in columns.items():
        at = np.minimum(np.searchsorted(ids, lists), len(ids) - 1)
        proposed = np.where(lists >= 0, at, -1)
        counts = ((lists < 0) | (ids[at] == lists)).all(axis=1) & changed_lists(replicas, proposed)
        if (lists[counts] >= 0).any():
            found[name] = np.where(counts[:, None], proposed, -1)
    return found


def _leaders(lists: Ints, replicas: Ints, led_by: Ints) -> Ints:
    """[row] Index of the leader; of the first replica if the leader is unknown or not in the list."""
    leads = (lists == led_by[:, None]) & (led_by[:, None] >= 0)
    leaders: Ints = replicas[np.arange(len(replicas)), leads.argmax(axis=1)]  # 0 for a row without True
    return leaders


def _in_sync(replicas: Ints, isr: Ints) -> Bools:
    """[row, position] Which replicas are in the ISR. An empty ISR is unknown (Kafka has none), and then all are."""
    unknown = (isr < 0).all(axis=1, keepdims=True)
    listed: Bools = (replicas[:, :, None] == isr[:, None, :]).any(axis=2)
    return (replicas >= 0) & (listed | unknown)


def _check_total(size: Floats, replicas: Ints) -> None:
    """Raises ArtifactError if the sum could exceed a 64-bit integer."""
    total = float((size * (replicas >= 0).sum(axis=1)).sum())
    if total > _LARGEST_TOTAL:
        raise ArtifactError(
            f"All replicas together have {total:g} bytes, which is more than any cluster holds. "
            "Nothing was planned. Correct column size_bytes."
        )


def _log_dirs(dirs_of: Sequence[tuple[int, Sequence[LogDirRow]]], count: int, headroom: float) -> LogDirs:
    """The room in the log dirs of brokers (by index) that have several, and in those of them that get new replicas."""
    several, unknown = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    room, rooms, fullest = np.full(count, np.inf), np.full(count, np.inf), [""] * count
    for broker, all_dirs in dirs_of:
        if len(all_dirs) < 2:
            continue
        dirs = [one for one in open_log_dirs(all_dirs) if None not in (one.total_bytes, one.usable_bytes)]
        if not dirs:
            unknown[broker] = True  # Kafka before 3.3 does not report them
            continue
        left = [max(0.0, (one.usable_bytes or 0) - headroom * (one.total_bytes or 0)) for one in dirs]
        several[broker], room[broker], rooms[broker] = len(dirs), min(left), sum(left)
        fullest[broker] = dirs[left.index(min(left))].path
    return LogDirs(several, room, rooms, tuple(fullest), unknown)


def _dir_contents(
    dirs_of: Sequence[tuple[int, Sequence[LogDirRow]]], partitions: Columns, order: Ints, replicas: Ints, size: Floats
) -> DirContents:
    """The log dirs of brokers (by index) that have several, if the snapshot knows the log dir of each replica.

    `order` gives the partition rows the order of `replicas` and `size`. Offline dirs do not count.
    """
    several = [(broker, [one for one in dirs if one.online]) for broker, dirs in dirs_of]
    several = [(broker, dirs) for broker, dirs in several if len(dirs) > 1]
    if not several:
        nothing = np.empty(0)
        lying_nowhere = np.full_like(replicas, -1)
        return DirContents(np.empty(0, dtype=np.int64), (), nothing, nothing, lying_nowhere, np.empty(0, dtype=bool))
    paths, lying = partitions.optional_text_lists("log_dirs")
    lying = widened(lying[order], replicas.shape[1])[:, : replicas.shape[1]]
    holders, known = (set(replicas[rows].tolist()) for rows in (replicas >= 0, (replicas >= 0) & (lying >= 0)))
    dirs = [(broker, one) for broker, all_ in several if broker in known or broker not in holders for one in all_]
    index = np.full((1 + max(holders, default=-1), len(paths) + 1), -1, dtype=np.int64)  # [broker, path]
    position = {path: number for number, path in enumerate(paths)}
    for number, (broker, one) in enumerate(dirs):
        if broker in known and one.path in position:
            index[broker, position[one.path]] = number
    holding = np.where((replicas >= 0) & (lying >= 0), index[replicas, lying], -1)
    held = np.bincount(holding[holding >= 0], size[np.nonzero(holding >= 0)[0]], len(dirs))
    total = np.array([np.nan if one.total_bytes is None else one.total_bytes for _, one in dirs], dtype=np.float64)
    usable = np.array([one.usable_bytes or 0 for _, one in dirs], dtype=np.float64)
    return DirContents(
        np.array([broker for broker, _ in dirs], dtype=np.int64),
        tuple(one.path for _, one in dirs),
        total,
        np.where(np.isnan(total), held, total - usable),
        holding,
        np.array([bool(open_log_dirs([one])) for _, one in dirs], dtype=bool),
    )


def _on_offline_dirs(
    partitions: Columns, order: Ints, replicas: Ints, offline: Bools, movable: Bools, untold: Ints
) -> Ints:
    """[partition row, position] The broker of a replica that lies on a log dir that is offline, else -1.

    A broker lists no replica of such a dir (ReplicaManager.describeLogDirs). So it is one that the broker holds, and
    lists in none of its other dirs. `offline` is [broker], whether one of its log dirs is offline.

    Raises PlanningError if brokers do not tell their log dirs (their ids are in `untold`), if those of a partition are
    unknown, or if no log dir is offline.
    """
    _, lying = partitions.optional_text_lists("log_dirs")
    lying = widened(lying[order], replicas.shape[1])[:, : replicas.shape[1]]
    here = (replicas >= 0) & offline[np.maximum(replicas, 0)] & (lying < 0)
    unknown = int((here.any(axis=1) & (lying < 0).all(axis=1) & movable).sum())
    if len(untold) or unknown:
        who = f"broker {listed(untold.tolist())}" if len(untold) else f"the replicas of {unknown} partitions"
        raise PlanningError(
            f"Job {REPLACE_LOG_DIR}: the log dirs of {who} are unknown, so nobody knows what lies on those that are "
            "offline. Nothing was planned. Grant the Kafka user Describe on the cluster, or see the brokers' logs."
        )
    if not offline.any():
        raise PlanningError(
            f"Job {REPLACE_LOG_DIR}: every broker says that all its log dirs are online. Nothing was planned. To empty "
            "a whole broker, use job drain; to empty a log dir that works, use kafka_log_dirs."
        )
    return np.where(here, replicas, -1)


# The two files of a snapshot: their columns, their writer and their digest.


BROKERS, PARTITIONS = "brokers.parquet", "partitions.parquet"
# The columns with the lists that the last proposal gave these candidates, as far as they have not been made since.
PROPOSED = {name: f"proposed_{name}" for name in SEARCHED}


class BrokerState(StrEnum):
    """The values of the column `state`; null is KEEP."""

    KEEP = "keep"
    NEW = "new"
    DRAIN = "drain"


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
            pa.field("offline_log_dirs", pa.list_(pa.string())),  # paths
            pa.field("cordoned_log_dirs", pa.list_(pa.string())),  # those of KIP-1066: they get no new replica
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
            pa.field("log_dirs", pa.list_(pa.string())),  # the path of each replica
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
            pa.field("waits_for", pa.list_(pa.int32())),  # nobody can copy it unless these brokers come back
            pa.field("being_deleted", pa.bool_()),  # its topic; the deletion waits for these brokers
            pa.field("cleanup_policy", pa.string()),
            pa.field("retention_ms", pa.int64()),
            pa.field("segment_bytes", pa.int64()),
            pa.field("kafkas_own", pa.bool_()),  # the brokers call the topic internal, and no name does
            pa.field("tiered", pa.bool_()),  # older records are in remote storage; `size_bytes` has none of those
            pa.field("remote_records", pa.int64()),  # in remote storage alone, of a tiered topic; null: unknown
            pa.field("local_records", pa.int64()),  # the other records of a tiered topic; null: unknown
            pa.field("left_brokers", pa.list_(pa.int32())),  # an earlier plan has lately taken a replica from these
            *(pa.field(column, pa.list_(pa.int32())) for column in PROPOSED.values()),
        ]
    ),
}
# Of the file; earlier versions have no such columns.
_LEFT_OUT_WHEN_EMPTY = (
    "offline_log_dirs",
    "cordoned_log_dirs",
    "waits_for",
    "being_deleted",
    "kafkas_own",
    "tiered",
    "remote_records",
    "local_records",
    "left_brokers",
    *PROPOSED.values(),
)


def write_snapshot(
    folder: Folder, broker_rows: Sequence[Mapping[str, Any]], partition_rows: Sequence[Mapping[str, Any]]
) -> str:
    """Writes both tables, rows sorted by their keys. Returns the digest of the two files.

    A later column in which no row has a value is not written, so that it changes no digest of a snapshot without it.
    """
    brokers = sorted(broker_rows, key=lambda row: row["broker"])
    partitions = sorted(partition_rows, key=lambda row: (row["topic"], row["partition"]))
    written = []
    for name, rows in ((BROKERS, brokers), (PARTITIONS, partitions)):
        schema = SNAPSHOT_SCHEMAS[name]
        unknown = sorted({column for row in rows for column in row} - set(schema.names))
        if unknown:
            raise ArtifactError(f"{name} has no column {', '.join(unknown)}.")
        written.append(parquet_bytes(_table(rows, schema)))
        write_whole(folder / name, written[-1])
    return digest_of_bytes(*written)


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    empty = [
        name
        for name in _LEFT_OUT_WHEN_EMPTY
        if name in schema.names and not any(_is_told(row.get(name)) for row in rows)
    ]
    return table.drop_columns(empty) if empty else table


def _is_told(value: Any) -> bool:
    return bool(value) or (value == 0 and value is not False)
