"""How often consumer groups read each record of a partition, as the offsets tell that they commit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints
from kafka_rebalance.planning.problem.bytes_in_history import MIN_INTERVALS, MIN_SECONDS


class Commits(NamedTuple):
    """[sample] What groups have committed: columns of SAMPLES_SCHEMA without `committed_`. NaN: not measured."""

    offsets: Floats
    groups: Floats
    digest: Floats  # below 2**48, so exact


def times_read(
    partition: Ints, told: Bools, seconds: Floats, records: Floats, committed: Commits, partitions: int
) -> pa.Array:
    """[partition] Records by which the groups went forward, over records appended; null: not measured.

    The others are [sample], by partition and time: the interval that ends with it, whether that interval counts, and
    the records appended in it. Of these intervals count those between samples of the same groups, whose sum did not
    fall: a group that is new, gone or set back gives no figure. At most each group counts as reading every record
    once. More is a backlog, which ends, or a jump over records that nobody read.
    """
    forward = np.diff(committed.offsets, prepend=np.nan)
    same = told & (np.diff(committed.digest, prepend=np.nan) == 0) & (forward >= 0)
    of = partition[same]
    read, appended, most, measured, intervals = (
        np.bincount(of, values, partitions)
        for values in (
            forward[same],
            records[same],
            records[same] * committed.groups[same],
            seconds[same],
            np.ones(len(of)),
        )
    )
    is_known = (intervals >= MIN_INTERVALS) & (measured >= MIN_SECONDS) & (appended > 0)
    return pa.array(np.minimum(read, most) / np.where(is_known, appended, 1.0), mask=~is_known)
