"""The fewest bytes known for a small cluster, and what is proven: by a mixed-integer program (HiGHS) of whole replicas.

The program is written from the tables alone, without the planner's rules: y[partition, broker], whether the partition
has a replica there. It keeps the length of lists, racks, brokers to be emptied, the bands of replicas, disks and bytes
in, and crowds brokers no more in total than before. Where the plan is outside a band, or crowds more because replicas
had to go somewhere, other lists may be so too. Nodes limit it, so that the same cluster gives the same figures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.scoring import NOWHERE, Bools, Cluster, Floats, Ints, loads, reachable, weights
from kafka_rebalance.planning.bounds import solver

_METRICS = ("replicas", "disk", "bytes_in")
_GAP = 1e-3
_INEXACT = 1e-6  # of the solver's bound: what its tolerances may add to it
NODES = {"S": 1_000, "12x1200": 60}  # the sizes for which it is computed


@dataclass(frozen=True, slots=True)
class Known:
    """Bytes that lists copy which end as even as the plan."""

    fewest: int  # of the plan itself, and of the program's lists
    least: int  # no such lists copy fewer


def best_known(cluster: Cluster, plan: Ints, tolerance: float, nodes: int) -> Known | None:
    """None without a solver, or if the plan breaks a rule.

    `plan` is [row, position], the lists after the plan. The program starts from it.
    """
    if not solver.available():
        return None
    brokers, before, lists = len(cluster.racks), _there(cluster.replicas, cluster), _there(plan, cluster)
    columns = np.arange(before.size).reshape(before.shape)
    copies = (cluster.replicas != NOWHERE).sum(axis=1)
    rows = _Rows()
    rows.add(columns, 1.0, copies, copies)
    racks = int(cluster.racks.max()) + 1
    for rack in range(racks):
        rows.add(columns[:, cluster.racks == rack], 1.0, 0, np.maximum(1, copies - racks + 1))
    for metric in _METRICS:
        share, weight = reachable(cluster, metric), weights(cluster, cluster.replicas)[metric]
        reached = loads(cluster, plan)[metric]
        for broker in np.flatnonzero(cluster.staying):
            own = reached[broker] / share[broker]
            least, most = min(1 - tolerance, own), max(1 + tolerance, own)
            rows.add(columns[None, :, broker], weight / share[broker], least, most)
    total = np.bincount(cluster.topic, copies)
    fits = np.ceil(total / cluster.staying.sum()) + 1
    crowds = before.size + np.arange(len(total) * brokers).reshape(len(total), brokers)
    for topic in range(len(total)):
        mine = columns[cluster.topic == topic]
        here = np.concatenate([mine.T, crowds[topic][:, None]], axis=1)
        rows.add(here, np.append(np.ones(len(mine)), -1.0), -np.inf, fits[topic])
    crowded = _crowded(before, cluster, fits)
    rows.add(crowds.reshape(1, -1), 1.0, 0, max(crowded.sum(), _crowded(lists, cluster, fits).sum()))
    unit = cluster.size_bytes.mean()
    stays = np.broadcast_to(cluster.staying, before.shape)
    program = solver.Program(
        np.concatenate([np.where(before, 0.0, cluster.size_bytes[:, None] / unit).ravel(), np.zeros(crowds.size)]),
        np.concatenate([stays.astype(float).ravel(), np.full(crowds.size, np.inf)]),
        np.concatenate(rows.low),
        np.concatenate(rows.high),
        np.concatenate(rows.rows),
        np.concatenate(rows.columns),
        np.concatenate(rows.values),
        np.arange(before.size + crowds.size) < before.size,
    )
    start = np.concatenate([lists.astype(float).ravel(), _crowded(lists, cluster, fits).ravel()])
    moved = int((cluster.size_bytes[:, None] * (lists & ~before)).sum())
    if program.breach(start) > 1e-4:
        return None
    found = solver.solve(program, {"mip_rel_gap": _GAP, "mip_max_nodes": nodes}, start)
    fewest, least = moved, max(0, int(found.bound * (1 - _INEXACT) * unit))
    if found.x is not None:
        new = (found.x[: before.size] > 0.5).reshape(before.shape) & ~before
        fewest = min(fewest, int((cluster.size_bytes[:, None] * new).sum()))
    return Known(fewest, least)


def _there(replicas: Ints, cluster: Cluster) -> Bools:
    """[row, broker] Whether the list has the broker."""
    there: Bools = (replicas[:, :, None] == np.arange(len(cluster.racks))).any(axis=1)
    return there


def _crowded(there: Bools, cluster: Cluster, fits: Floats) -> Floats:
    """[topic, broker] Replicas beyond an even share and one."""
    held = np.zeros((len(fits), there.shape[1]))
    np.add.at(held, cluster.topic, there)
    return np.maximum(0.0, held - fits[:, None])


class _Rows:
    """Rows of a program, in parts."""

    def __init__(self) -> None:
        self.rows: list[Ints] = []
        self.columns: list[Ints] = []
        self.values: list[Floats] = []
        self.low: list[Floats] = []
        self.high: list[Floats] = []
        self._count = 0

    def add(self, columns: Ints, values: Floats | float, low: Floats | float, high: Floats | float) -> None:
        """One row for each row of `columns`."""
        count = len(columns)
        self.rows.append(np.repeat(self._count + np.arange(count), columns.shape[1]))
        self.columns.append(columns.ravel())
        self.values.append(np.broadcast_to(values, columns.shape).astype(np.float64).ravel())
        self.low.append(np.broadcast_to(low, count).astype(np.float64))
        self.high.append(np.broadcast_to(high, count).astype(np.float64))
        self._count += count
