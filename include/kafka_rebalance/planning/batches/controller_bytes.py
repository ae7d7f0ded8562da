"""The cost of a batch for the controller: half of the bytes of the znodes that it writes and reads.

For each moving partition, the controller writes the whole znode of its topic twice, when the move starts and when it
ends (KafkaController, updateAssignedReplicasForPartition; updateReplicaAssignmentForPartition since 2.4). When it ends,
the controller also writes the request again, without this partition (removePartitionsFromReassignedPartitions). Since
2.4 it reads the request before (maybeRemoveFromZkReassignment). The request becomes shorter all the time. So all its
reads and writes together are the whole request once for each partition, and without the reads they are half of that.

So the cost of a batch grows with the square of its size. The controller starts a batch in one event and ends its
partitions in further events. If a broker dies meanwhile, the election of new leaders waits for these events.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.kafka.znode_limits import (
    CONTROLLER_BYTES_PER_BATCH,
    CONTROLLER_BYTES_PER_BATCH_FROM_2_8,
    JUTE_MAXBUFFER_BYTES,
)
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem, moved_lists

# Less the path and headers of the request, and the check of the controller epoch since 2.1.
ZNODE_BYTES = JUTE_MAXBUFFER_BYTES - 1024

# The longest form, version 3 with a topic id, because the tables do not name the version of a cluster. Each entry
# counts with a comma, but the last has none.
_TOPIC_FRAME = len('{"version":3,"topic_id":"","partitions":{},"adding_replicas":{},"removing_replicas":{}}') + 22 - 1
_REQUEST_FRAME = len('{"version":1,"partitions":[]}') - 1
_REQUEST_ENTRY = len('{"topic":"","partition":,"replicas":[]},')


@dataclass(frozen=True, slots=True, eq=False)
class Rewrites:
    """The sizes of the znodes that the controller rewrites for moves. All but `most` are [move]."""

    topic: Ints  # index into the problem's topics
    topic_bytes: (
        Ints  # bytes, as all that follow: the znode without moves, each list at its longer size of before and after
    )
    growth: Ints  # extra bytes while this partition moves: union list, added and removed (2.4+)
    request: Ints  # the partition's entry in the reassignment znode
    most: int  # the cost that one batch may have

    @property
    def alone(self) -> Ints:
        """The topic's znode while only this partition moves."""
        return self.topic_bytes + self.growth


def rewrites(problem: Problem, moves: Sequence[Move]) -> Rewrites:
    index = {topic: number for number, topic in enumerate(problem.topics)}
    topic = np.array([index[move.topic_partition.topic] for move in moves], dtype=np.int64)
    key = _digits(np.array([move.topic_partition.partition for move in moves], dtype=np.int64))
    name = np.array([len(topic) for topic in problem.topics], dtype=np.int64)
    lists, widths = moved_lists(problem, moves), _digits(problem.brokers) + 1
    new, gone = lists.new, lists.gone
    before, after, added, removed = (
        _list_bytes(np.where(chosen, brokers, -1), widths)
        for brokers, chosen in (
            (lists.before, lists.before >= 0),
            (lists.after, lists.after >= 0),
            (lists.after, new),
            (lists.before, gone),
        )
    )
    elects = lists.is_election  # elections rewrite none of these znodes
    longer = np.where(elects, 0, np.maximum(0, after - before))
    union = after + np.where(removed > 0, removed + 1, 0)
    growth = union - np.maximum(before, after)
    for part in (added, removed):
        growth += np.where(part > 0, _entry_bytes(key, part), 0)
    return Rewrites(
        topic,
        np.where(elects, 0, (_topic_bytes(problem) + _summed(topic, longer, len(problem.topics)))[topic]),
        np.where((new | gone).any(axis=1), growth, 0),
        np.where(elects, 0, _REQUEST_ENTRY + name[topic] + key + after),
        _controller_bytes_allowed(problem),
    )


def _controller_bytes_allowed(problem: Problem) -> int:
    """The cost that one batch may have. A controller that gives topics ids needs a sixth of the time for it."""
    return CONTROLLER_BYTES_PER_BATCH_FROM_2_8 if problem.has_topic_ids else CONTROLLER_BYTES_PER_BATCH


def _digits(numbers: Ints) -> Ints:
    digits: Ints = np.searchsorted(10 ** np.arange(1, 10), numbers, side="right") + 1
    return digits


def _list_bytes(brokers: Ints, widths: Ints) -> Ints:
    """[row] `1,12,3`; 0 for an empty list. `widths` is [broker], with a comma; -1 in `brokers` is nothing."""
    found: Ints = np.maximum(0, np.where(brokers >= 0, widths[brokers], 0).sum(axis=1) - 1)
    return found


def _entry_bytes(key: Ints, listed: Ints) -> Ints:
    """`"7":[1,12,3],` for a key of `key` digits and a list of `listed` bytes."""
    return key + listed + len('"":[],')


def _topic_bytes(problem: Problem) -> Ints:
    """[topic] Its znode now."""
    lists = _list_bytes(problem.replicas, _digits(problem.brokers) + 1)
    return _summed(problem.topic, _entry_bytes(_digits(problem.partition), lists), len(problem.topics)) + _TOPIC_FRAME


def _summed(topic: Ints, amounts: Ints, topics: int) -> Ints:
    """[topic] The sum of its amounts."""
    return np.bincount(topic, amounts, topics).astype(np.int64)


def too_large(sizes: Rewrites) -> int | None:
    """The move of the largest topic whose znode the controller could not write during it, if there is one.

    ZooKeeper closes a connection that sends more than jute.maxbuffer, and the controller then retries forever.
    """
    return int(sizes.alone.argmax()) if sizes.alone.max(initial=0) > ZNODE_BYTES else None


def bytes_by_batch(sizes: Rewrites, batches: Ints) -> Ints:
    """[batch, from 0] The cost of each: the topic and half of the request, for each partition. `batches` is [move]."""
    if not len(batches):
        return np.zeros(0, dtype=np.int64)
    partitions = np.bincount(batches)
    entries = np.bincount(batches, sizes.request).astype(np.int64)
    request = np.where(entries > 0, entries + _REQUEST_FRAME, 0)  # elections have no request
    pairs, pair = np.unique(np.stack([batches, sizes.topic]), axis=1, return_inverse=True)
    of_topic = np.bincount(pair.ravel())
    longest = np.bincount(pair.ravel(), sizes.growth).astype(np.int64)
    longest[pair.ravel()] += sizes.topic_bytes  # the same for every move of the topic
    return _half(partitions * request) + np.bincount(pairs[0], of_topic * longest, len(partitions)).astype(np.int64)


def _half(requests: Ints) -> Ints:
    """Rounded up."""
    half: Ints = -(-requests // 2)
    return half


def bearable(sizes: Rewrites, moves: Ints) -> bool:
    """Whether these moves may be one batch. A single move always may."""
    if len(moves) < 2:
        return True
    some = Rewrites(sizes.topic[moves], sizes.topic_bytes[moves], sizes.growth[moves], sizes.request[moves], sizes.most)
    longest = some.topic_bytes + np.bincount(some.topic, some.growth)[some.topic]
    cost = int(bytes_by_batch(some, np.zeros(len(moves), dtype=np.int64))[0])
    return bool(longest.max() <= ZNODE_BYTES) and cost <= sizes.most


class Work:
    """The cost of batches for the controller, while they are filled."""

    def __init__(self, sizes: Rewrites, most: int) -> None:
        """One empty batch; `most` is the limit of partitions in a batch."""
        # [batch] twice the cost, and the request once more, for the next partition
        self._doubled = np.full(1, _REQUEST_FRAME, dtype=np.int64)
        self._request = np.full(1, _REQUEST_FRAME, dtype=np.int64)
        self._partitions = np.zeros(1, dtype=np.int64)
        largest = int((sizes.topic_bytes + most * sizes.growth).max(initial=0))
        request = _REQUEST_FRAME + most * int(sizes.request.max(initial=0))
        # In most clusters, topics are so small that no batch comes near a limit. Then there is nothing to add up.
        self.matters = largest > ZNODE_BYTES or most * (2 * largest + request) > 2 * sizes.most
        self._most = sizes.most
        columns = sizes.topic, sizes.alone, sizes.growth, sizes.request
        self._sizes = list(zip(*(column.tolist() for column in columns), strict=True))
        # Each topic in each batch that has it. A topic has as many of these columns as it has moves.
        self._in_batch = np.zeros((3, len(sizes.topic)), dtype=np.int64)  # batch, its partitions there, their growth
        counts = np.bincount(sizes.topic)
        self._starts: list[int] = (np.cumsum(counts) - counts).tolist()  # [topic]
        self._ends = self._starts.copy()  # [topic] of the columns in use
        self._longest = [0] * len(counts)  # [topic] the most growth in one batch
        self._places: dict[tuple[int, int], int] = {}  # {(topic, batch): its column}

    def append(self) -> None:
        self._doubled = np.append(self._doubled, _REQUEST_FRAME)
        self._request = np.append(self._request, _REQUEST_FRAME)
        self._partitions = np.append(self._partitions, 0)

    def full(self, move: int) -> Bools:
        """[batch] Whether the move is too much for the batch. An empty batch takes any."""
        if not self.matters:
            return np.zeros(len(self._partitions), dtype=bool)
        topic, alone, growth, entry = self._sizes[move]
        # The topic twice more, and each time longer by the growth; the request once more, and longer by the entry.
        after = self._partitions * entry
        after += self._doubled
        batches, count, longer = self._in_batch[:, self._starts[topic] : self._ends[topic]]
        after[batches] += 2 * (count * growth + longer)
        over: Bools = after > 2 * (self._most - alone) - entry
        if self._longest[topic] > ZNODE_BYTES - alone:
            over[batches] |= longer > ZNODE_BYTES - alone
        if not self._partitions[-1]:
            over[-1] = False
        return over

    def add(self, move: int, batch: int) -> None:
        if not self.matters:
            return
        topic, alone, growth, entry = self._sizes[move]
        place = self._places.setdefault((topic, batch), self._ends[topic])
        if place == self._ends[topic]:
            self._in_batch[0, place] = batch
            self._ends[topic] += 1
        _, count, longer = self._in_batch[:, place].tolist()
        self._partitions[batch] += 1
        self._request[batch] += entry
        self._doubled[batch] += 2 * (alone + longer + count * growth)
        self._doubled[batch] += self._request[batch] + self._partitions[batch] * entry
        self._in_batch[1:, place] += (1, growth)
        self._longest[topic] = max(self._longest[topic], longer + growth)


class OneBatch:
    """The cost of one batch for the controller, while it is filled."""

    def __init__(self, sizes: Rewrites) -> None:
        self.sizes = sizes
        self._doubled, self._partitions, self._request = 0, 0, _REQUEST_FRAME  # twice the cost
        self._topics: dict[int, tuple[int, int]] = {}  # {topic: (its partitions, extra bytes of its znode)}

    def added(self, move: int) -> bool:
        """Whether the batch takes the move. An empty batch takes any."""
        topic, growth, entry = (int(part[move]) for part in (self.sizes.topic, self.sizes.growth, self.sizes.request))
        count, longer = self._topics.get(topic, (0, 0))
        topic_bytes = int(self.sizes.topic_bytes[move]) + growth + longer
        # The topic twice more, and each time longer by the growth; the request once more, and longer by the entry.
        doubled = self._doubled + 2 * (topic_bytes + count * growth)
        doubled += self._request + entry + self._partitions * entry
        if self._partitions and (doubled > 2 * self.sizes.most or topic_bytes > ZNODE_BYTES):
            return False
        self._doubled, self._partitions, self._request = doubled, self._partitions + 1, self._request + entry
        self._topics[topic] = count + 1, longer + growth
        return True


def partitions_per_batch(sizes: Rewrites, moves: Sequence[int]) -> float:
    """How many of these moves fit in a batch, if all are as large as the mean: then n(t + ng + nr/2) is the limit."""
    topic_bytes = float(sizes.topic_bytes[moves].mean())
    each = float((sizes.growth[moves] + sizes.request[moves] / 2).mean())
    return max(1.0, (math.sqrt(topic_bytes**2 + 4 * each * sizes.most) - topic_bytes) / (2 * each))
