"""Brokers with several log dirs, as the snapshot found them: what each takes, and what lies in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_rebalance.planning.problem.arrays import DirContents, Floats, Ints, LogDirs, widened
from kafka_rebalance.planning.tables.checked_columns import Columns, LogDir


def read_log_dirs(brokers: Columns, at: Ints, count: int, headroom: float) -> LogDirs:
    """The log dirs of brokers that have several; `at` is [broker row], the index of its broker.

    Offline dirs take nothing, so the others bind: where a broker tells the sizes of some, one without is offline.
    """
    several, unknown = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    room, rooms, fullest = np.full(count, np.inf), np.full(count, np.inf), [""] * count
    for broker, all_dirs in zip(at.tolist(), brokers.log_dirs(), strict=True):
        if len(all_dirs) < 2:
            continue
        dirs = [one for one in _online(all_dirs) if one.total_bytes is not None and one.usable_bytes is not None]
        if not dirs:
            unknown[broker] = True  # Kafka before 3.3 does not report them
            continue
        left = [max(0.0, (one.usable_bytes or 0) - headroom * (one.total_bytes or 0)) for one in dirs]
        several[broker], room[broker], rooms[broker] = len(dirs), min(left), sum(left)
        fullest[broker] = dirs[left.index(min(left))].path
    return LogDirs(several, room, rooms, tuple(fullest), unknown)


def read_dir_contents(
    brokers: Columns, partitions: Columns, at: Ints, order: Ints, replicas: Ints, size: Floats
) -> DirContents:
    """The log dirs of the brokers that have several, where the snapshot knows which of them each replica lies in.

    `at` is [broker row], the index of its broker; `order` are the partition rows as those of `replicas` and `size`.
    Offline dirs are left out: where a broker tells the sizes of some, one without is offline.
    """
    several = [(broker, _online(dirs)) for broker, dirs in zip(at.tolist(), brokers.log_dirs(), strict=True)]
    several = [(broker, dirs) for broker, dirs in several if len(dirs) > 1]
    if not several:
        nothing = np.empty(0)
        return DirContents(np.empty(0, dtype=np.int64), (), nothing, nothing, np.full_like(replicas, -1))
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
    )


def _online(dirs: Sequence[LogDir]) -> Sequence[LogDir]:
    return [one for one in dirs if one.total_bytes is not None] or dirs
