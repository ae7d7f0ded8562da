"""How a topic's replicas spread over the brokers: the search never lets a topic crowd a broker more than before.

A topic crowds a broker with the replicas beyond its even share plus one. Then this broker carries much of the topic's
load, and its loss hits the topic (Cruise Control's TopicReplicaDistributionGoal measures the same).
"""

from __future__ import annotations

from copy import copy

import numpy as np

from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints


class Crowding:
    """[topic, broker] How many more replicas fit until the topic crowds the broker; below 0 it does.

    If `in_total` is a number, a topic may crowd a broker anew once so many crowded replicas have gone elsewhere.
    """

    def __init__(self, replicas: Ints, topic: Ints, shares: Floats) -> None:
        """`shares` is [broker], the share of everything that the broker should hold."""
        brokers, topics = len(shares), int(topic.max(initial=-1)) + 1
        rows, _ = np.nonzero(replicas >= 0)
        held = topic[rows] * brokers + replicas[replicas >= 0]
        counts = np.bincount(held, minlength=topics * brokers).reshape(topics, brokers)
        even = counts.sum(axis=1)[:, None] * np.where(shares > 0, shares, shares.max(initial=0.0))
        self.topic = topic
        # Rounding may put an even share just above a whole number.
        self.room = (np.ceil(even - 1e-9) + 1 - counts).astype(np.int32)
        self.spare = 0  # how many fewer crowded replicas than at first
        self.in_total: int | None = None

    def copy(self) -> Crowding:
        twin = copy(self)
        twin.room = self.room.copy()
        return twin

    @property
    def replicas(self) -> int:
        """How many replicas lie beyond an even share plus one."""
        return int(np.maximum(0, -self.room).sum())

    def allows(self, rows: Ints, sources: Ints, targets: Ints) -> Bools:
        """[row, target] Whether a replica may come: there is room, or it leaves a crowded broker.

        `targets` is [target], or [row, 1].
        """
        if self.in_total is not None and self.spare >= self.in_total:
            return np.ones((1, 1), dtype=bool)
        topic = self.topic[rows]
        free: Bools = (self.room[topic[:, None], targets] > 0) | (self.room[topic, sources] < 0)[:, None]
        return free

    def move(self, rows: Ints, sources: Ints, targets: Ints) -> None:
        """Counts replicas that went from the sources to the targets."""
        topic = self.topic[rows]
        self.spare += int((self.room[topic, sources] < 0).sum() - (self.room[topic, targets] <= 0).sum())
        np.add.at(self.room, (topic, sources), 1)
        np.subtract.at(self.room, (topic, targets), 1)
