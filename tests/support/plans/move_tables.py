"""Moves as the table that the moves page reads."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.planning.tables.result_tables import COLUMNS, moves_of


def move_table(moves: Sequence[Move]) -> pa.Table:
    return moves_of([("", moves)]).select(COLUMNS.names)  # without the candidate
