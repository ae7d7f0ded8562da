"""Bytes and seconds that no plan stays below, by simple sums over the brokers."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.problem.arrays import Bools, Floats


def moved_bytes_bound(
    load: Floats, bands: tuple[Floats, Floats], staying: Bools, needed: float, *, same_factor: bool
) -> int:
    """Bytes that any plan must copy whose brokers end between low and high, in bytes on disk.

    `load` is [broker] before. `needed` are copies that must be made whatever the balance: of replicas on brokers that
    are emptied, and of replicas that a higher replication factor adds. Where the factor is the `same`, what leaves a
    broker above its band is copied too; else it may just be dropped.
    """
    low, high = bands
    giving = needed + (np.maximum(0, load - high)[staying].sum() if same_factor else 0.0)
    taking = np.maximum(0, low - load)[staying].sum()
    return int(max(giving, taking))


def makespan_bound(received: Floats, sent: Floats, bytes_per_second: int) -> float:
    """Seconds that no order of the copies can beat: the busiest broker's bytes at its throttle."""
    return float(max(received.max(initial=0.0), sent.max(initial=0.0))) / bytes_per_second
