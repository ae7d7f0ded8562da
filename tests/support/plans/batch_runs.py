"""A plan's batches run one after the other on paper, from the moves alone: what each broker copies, and its disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.model.candidate import Move


@dataclass(frozen=True)
class BatchRun:
    """One batch. Bytes and copies by broker; `peak` and `after` of every broker."""

    moves: tuple[Move, ...]
    received: Counter[int]
    sent: Counter[int]
    copies_in: Counter[int]
    copies_out: Counter[int]
    peak: dict[int, int]
    after: dict[int, int]

    @property
    def busiest_bytes(self) -> int:
        return max([0, *self.received.values(), *self.sent.values()])


def run_batches(moves: Sequence[Move], used: Mapping[int, int]) -> tuple[BatchRun, ...]:
    """The batches in order. Copies come from the leader of before; old ones go when the whole batch is done."""
    held, runs = dict(used), []
    for number in sorted({move.batch for move in moves}):
        batch = tuple(move for move in moves if move.batch == number)
        received, sent, copies_in, copies_out = (Counter[int]() for _ in range(4))
        for move in batch:
            for broker in move.added:
                received[broker] += move.size_bytes
                sent[move.source] += move.size_bytes
                copies_in[broker] += 1
                copies_out[move.source] += 1
        peak = {broker: size + received[broker] for broker, size in held.items()}
        held = peak.copy()
        for move in batch:
            for broker in move.removed:
                held[broker] -= move.size_bytes
        runs.append(BatchRun(batch, received, sent, copies_in, copies_out, peak, held.copy()))
    return tuple(runs)


def makespan_over_bound(runs: Sequence[BatchRun]) -> float:
    """Sum of the busiest broker's bytes of each batch over what the busiest broker moves in all."""
    received, sent = (sum((getattr(run, way) for run in runs), Counter()) for way in ("received", "sent"))
    return sum(run.busiest_bytes for run in runs) / max([*received.values(), *sent.values()])
