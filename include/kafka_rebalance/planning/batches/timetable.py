"""When each broker receives and sends, when each batch begins, and which topics a plan holds up.

Times are shares of the whole. A batch lasts as long as its busiest broker needs at the throttle. So the shares stay
true if somebody approves another throttle.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from kafka_rebalance.documents.proposals import BatchSlot, HeldUp, HeldUpTopic, Timetable
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.planning.problem.arrays import Floats, Ints

BROKERS_LISTED, BATCHES_LISTED = 12, 50
SLOTS = 60  # equal parts of the plan's time
TOPICS_LISTED = 50


def timetable(brokers: Ints, batch: Ints, received: Floats, sent: Floats) -> Timetable:
    """The brokers with most bytes, and the first batches.

    `brokers` are ids, `batch` is [move] from 0, `received` and `sent` are [batch, broker] bytes. A broker's lanes are
    [slot] shares of the throttle that it uses. `busy` is the share of the time that its own bytes need.
    """
    busier = np.maximum(received, sent)
    lasts = busier.max(axis=1, initial=0.0)
    whole = float(lasts.sum())
    works = busier > 0
    total = np.maximum(received.sum(axis=0), sent.sum(axis=0))
    listed = [int(one) for one in np.lexsort((brokers, -total))[:BROKERS_LISTED] if total[one] > 0]
    per_second = np.divide(1.0, lasts, out=np.zeros(len(lasts)), where=lasts > 0)[:, None]
    overlap = _overlap(lasts, whole)
    lanes = {name: overlap @ (amounts[:, listed] * per_second) for name, amounts in (("in", received), ("out", sent))}
    ends = np.cumsum(lasts)
    moves = np.bincount(batch, minlength=len(lasts))
    return Timetable(
        int((total > 0).sum()),
        tuple(
            {
                "broker": int(brokers[one]),
                "received_bytes": int(received[:, one].sum()),
                "sent_bytes": int(sent[:, one].sum()),
                "first_batch": int(works[:, one].argmax()) + 1,
                "last_batch": len(lasts) - int(works[::-1, one].argmax()),
                "busy": _share(float(busier[:, one].sum()), whole),
                "in": tuple(lanes["in"][:, position].round(3).tolist()),
                "out": tuple(lanes["out"][:, position].round(3).tolist()),
            }
            for position, one in enumerate(listed)
        ),
        len(lasts),
        tuple(
            BatchSlot(
                number + 1,
                int(moves[number]),
                int(received[number].sum()),
                _share(float(ends[number] - lasts[number]), whole),
                _share(float(lasts[number]), whole),
                int(brokers[busier[number].argmax()]) if lasts[number] else None,
            )
            for number in range(min(BATCHES_LISTED, len(lasts)))
        ),
    )


def _overlap(lasts: Floats, whole: float) -> Floats:
    """[slot, batch] The share of the slot during which the batch runs."""
    if not whole:
        return np.zeros((0, len(lasts)))
    ends, slot = np.cumsum(lasts), whole / SLOTS
    upper = slot * np.arange(1, SLOTS + 1)[:, None]
    shared = np.minimum(ends, upper) - np.maximum(ends - lasts, upper - slot)
    share: Floats = np.maximum(0.0, shared) / slot
    return share


def _share(part: float, whole: float) -> float:
    return round(part / whole, 6) if whole else 0.0


def held_up(moves: Sequence[Move], kafkas_own: Collection[str]) -> HeldUp:
    """Topics that nobody can expand or delete while their batches run: how many, and those with most moves.

    During a reassignment Kafka adds no partitions to a topic (AdminManager.createPartitions:
    ReassignmentInProgressException), and its deletion waits (TopicDeletionManager.isTopicIneligibleForDeletion).
    """
    batches: dict[str, list[int]] = {}
    for move in moves:
        batches.setdefault(move.topic_partition.topic, []).append(move.batch)
    most = sorted(batches, key=lambda topic: (-len(batches[topic]), topic))[:TOPICS_LISTED]
    return HeldUp(
        len(batches),
        tuple(sorted(batches.keys() & set(kafkas_own))),
        tuple(HeldUpTopic(topic, len(batches[topic]), min(batches[topic]), max(batches[topic])) for topic in most),
    )
