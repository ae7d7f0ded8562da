"""What binds the leaders of a plan: who may be elected, how a topic's leaders spread, and min.insync.replicas."""

from __future__ import annotations

from copy import copy

import numpy as np

from kafka_rebalance.model.partition import MayNotLead, may_not_lead
from kafka_rebalance.planning.problem.arrays import LEADERS, Bools, Floats, Ints, Problem, lagging, replication, shares

# Which replicas of lists a plan may elect: `model.replica_list` for all lists of a problem.


def may_be_elected(problem: Problem, replicas: Ints) -> Bools:
    """[row, position] Whether this replica may be the first of a changed list: it leads today, or the rule lets it."""
    leads = replicas == problem.leader[:, None]
    may: Bools = (replicas >= 0) & (leads | (~problem.closed[np.maximum(replicas, 0)] & ~lagging(problem, replicas)))
    return may


def wrongly_elected(problem: Problem, replicas: Ints, rows: Bools) -> dict[int, MayNotLead]:
    """{row: why} Those of the `rows` whose first replica must not be elected."""
    closed = set(np.flatnonzero(problem.closed).tolist())
    found = {}
    for row in np.flatnonzero(rows & (replicas[:, 0] != problem.leader)).tolist():
        before = problem.replicas[row]
        isr = before[problem.in_sync[row]].tolist()
        why = may_not_lead(before[before >= 0].tolist(), replicas[row].tolist(), int(problem.leader[row]), isr, closed)
        if why is not None:
            found[row] = why
    return found


# How a topic's leaders spread over the brokers: no plan makes them spread worse than before.
#
# A broker leads too many partitions of a topic if they are more than its even share, rounded up. Then clients of the
# topic meet one broker more than others, and its loss stops more of the topic at once.


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
        # [pool, broker] of the brokers of the topic's pool; the last topic may be of any.
        pools = problem.pools
        share = np.where(np.arange(len(pools.names))[:, None] == pools.of_broker, share, 0.0)
        share /= np.maximum(share.sum(axis=-1, keepdims=True), 1e-300)
        even = (led * ~kept).sum(axis=1)[:, None] * share[np.append(pools.of_topic, 0)]
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


# Lists that a plan makes shorter, against min.insync.replicas of their topics (0: unknown, so there is no limit).
#
# With fewer replicas than min.insync.replicas, a partition takes no record of a producer with acks=all, even if all
# its brokers are up (Partition.appendRecordsToLeader: NotEnoughReplicasException). A list that is already too short
# may stay so or grow. Such a plan takes nothing away, and the worst case names the list.


_TOPICS_NAMED = 5


def cut_below(problem: Problem, counts: Ints) -> Bools:
    """[partition row] Lists that become shorter than min.insync.replicas. `counts` are replicas in the end."""
    below: Bools = (counts < replication(problem.replicas)) & (counts < problem.min_insync)
    return below


def topics_and_least(problem: Problem, rows: Bools) -> str:
    """The topics of these rows with their min.insync.replicas: `audit (3), orders (2) and 4 more topics`."""
    least = {int(topic): int(problem.min_insync[rows & (problem.topic == topic)].max()) for topic in _of(problem, rows)}
    named = [f"{problem.topics[topic]} ({most})" for topic, most in list(least.items())[:_TOPICS_NAMED]]
    return _listed(named, len(least))


def warnings(problem: Problem, counts: Ints) -> list[str]:
    """Shorter lists with exactly min.insync.replicas, as a clause of a candidate's note."""
    rows: Bools = (counts < replication(problem.replicas)) & (counts == problem.min_insync)
    if not rows.any():
        return []
    topics = _of(problem, rows)
    names = _listed([problem.topics[topic] for topic in topics[:_TOPICS_NAMED]], len(topics))
    return [
        f"{int(rows.sum())} partitions of {names} would have exactly as many replicas as min.insync.replicas asks for: "
        "the failure of any one of their brokers stops producers with acks=all"
    ]


def _of(problem: Problem, rows: Bools) -> list[int]:
    topics: list[int] = np.unique(problem.topic[rows]).tolist()
    return topics


def _listed(names: list[str], count: int) -> str:
    return ", ".join(names) + (f" and {count - len(names)} more topics" if count > len(names) else "")
