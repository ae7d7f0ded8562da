"""How a topic's leaders spread over the brokers: no plan makes them spread worse than before.

A broker leads too many partitions of a topic if they are more than its even share, rounded up. Then clients of the
topic meet one broker more than others, and its loss stops more of the topic at once.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from kafka_rebalance.planning.problem.arrays import Floats, Ints, Problem, replication
from kafka_rebalance.planning.problem.loads import LEADERS, shares


class TopicLeaders:
    """[topic, broker] How many more partitions the broker may lead until it leads too many; below 0 it does.

    A broker that is emptied should lead none. A broker of `brokers_out` keeps what it leads, and that is never too
    much. The others share the rest by their networks, as they share all leaders.

    Partitions with one replica do not count. Whoever holds it leads, and `Crowding` spreads the replicas of a topic.
    """

    def __init__(self, problem: Problem, leaders: Ints) -> None:
        """`leaders` is [partition row], broker indices."""
        topics, brokers = len(problem.topics), len(problem.brokers)
        # The partitions with one replica are a topic of their own, which has room everywhere.
        self.topic: Ints = np.where(replication(problem.replicas) > 1, problem.topic, topics)
        led = np.bincount(self.topic * brokers + leaders, minlength=(topics + 1) * brokers).reshape(-1, brokers)
        kept = problem.staying & problem.closed
        share: Floats = np.where(problem.evened, shares(problem)[:, LEADERS], 0.0)
        if problem.pools is not None:  # a topic's share of the brokers of its pool; the last topic is in every pool
            of_topic = np.append(problem.pools.of_topic, 0)[:, None]
            share = np.where(of_topic == problem.pools.of_broker, share, 0.0)
        even = (led * ~kept).sum(axis=1)[:, None] * (share / np.maximum(share.sum(axis=-1, keepdims=True), 1e-300))
        # Rounding may put an even share just above a whole number.
        most = np.where(kept, led, np.ceil(even - 1e-9))
        self.room = (most - led).astype(np.int32)
        self.room[topics] = len(self.topic) + 1
        self.excess = int(np.maximum(0, -self.room).sum())  # how many leaders are too many, over topics and brokers

    def copy(self) -> TopicLeaders:
        twin = copy(self)
        twin.room = self.room.copy()
        return twin

    def change(self, rows: Ints, sources: Ints, targets: Ints) -> Ints:
        """[row] How much the excess grows if each row's leader changes alone: -1, 0 or 1. The arrays may broadcast."""
        topic = self.topic[rows]
        grown: Ints = (self.room[topic, targets] <= 0).astype(np.int64) - (self.room[topic, sources] < 0)
        return grown

    def move(self, rows: Ints, sources: Ints, targets: Ints) -> None:
        """Counts leaders that changed from the sources to the targets."""
        topic, brokers = self.topic[rows], self.room.shape[1]
        from_, to = topic * brokers + sources, topic * brokers + targets
        concerned, room = np.unique(np.concatenate([from_, to])), self.room.ravel()
        self.excess += int(np.minimum(0, room[concerned]).sum())
        np.add.at(room, from_, 1)
        np.subtract.at(room, to, 1)
        self.excess -= int(np.minimum(0, room[concerned]).sum())
