"""Bytes and seconds that no plan stays below, from sums over the brokers."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.problem.arrays import Bools, Floats


def moved_bytes_bound(
    load: Floats, bands: tuple[Floats, Floats], staying: Bools, needed: float, *, same_factor: bool
) -> int:
    """Bytes that every plan must copy if its brokers end between low and high, in bytes on disk.

    `load` is [broker] before. Every plan makes the copies in `needed`: of replicas on brokers to be emptied, and of
    replicas that a higher replication factor adds. With the `same_factor`, a plan also copies what leaves a broker
    above its band. Otherwise it may just drop that.
    """
    low, high = bands
    giving = needed + (np.maximum(0, load - high)[staying].sum() if same_factor else 0.0)
    taking = np.maximum(0, low - load)[staying].sum()
    return int(max(giving, taking))


def makespan_bound(received: Floats, sent: Floats, bytes_per_second: int) -> float:
    """Seconds that every order of the copies needs: the busiest broker's bytes at its throttle."""
    return float(max(received.max(initial=0.0), sent.max(initial=0.0))) / bytes_per_second
