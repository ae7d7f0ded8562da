"""What binds the leaders of a plan: who may be elected, how a topic's leaders spread, and min.insync.replicas."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.documents.candidate_notes import Note, NoteKind, note, topics_in_words
from kafka_rebalance.model.partition import MayNotLead, may_not_lead
from kafka_rebalance.planning.problem.arrays import (
    LEADERS,
    Bools,
    Floats,
    Ints,
    Problem,
    lagging,
    replication,
    shares,
    widened,
)
from kafka_rebalance.planning.rules.goals import Goal

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
        most = np.where(kept, led, np.ceil(even - 1e-9)).astype(np.int64)
        most[topics] = led[topics] + len(self.topic) + 1
        self.most: Ints = most  # [topic, broker] that it may lead until it leads too many
        self.room = (most - led).astype(np.int32)
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


# The preferred leaders that a plan elects, and the leaders after it.
#
# The preferred leader is the first replica of a list. The run elects it for every partition of the plan. So the plan
# may contain a partition whose list stays the same, if another broker leads it now.


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """The lists after a plan and their leaders; all are [partition row]."""

    replicas: Ints  # [partition row, position] as the plan has them
    lists: Ints  # [partition row, position] where one that stays keeps its order
    leaders: Ints  # the first replica of each partition in the plan, and today's leader of the others
    changed: Bools  # the list changes
    elected: Bools  # the list stays the same, and the run elects its first replica
    leader_changes: int  # partitions that another broker leads after the plan
    beyond: int  # elections above `max_leader_changes`
    impossible: int  # partitions whose first replica is not in sync now, or must not lead by `brokers_out`
    left_out: int  # lists that stay as they are, because no replica of the new list may be elected


def ending(problem: Problem, replicas: Ints, goal: Goal) -> Ending:
    """The end of a plan with these lists.

    If they were searched, a list with the same replicas and the same first one does not change, whatever the order of
    the others. Nor does one of which only today's leader would come first, if leader changes are limited, or one whose
    first replica must not be elected. If the goal elects, the plan also elects preferred leaders of lists that stay.
    """
    most, left_out, led_on = problem.settings.max_leader_changes, 0, np.zeros(len(replicas), dtype=bool)
    changed = _changed(problem, replicas, goal.searched)
    if goal.searched:
        wrong = list(wrongly_elected(problem, replicas, changed))
        left_out, stays = len(wrong), np.zeros(len(replicas), dtype=bool)
        stays[wrong] = True
        if most is not None:
            # The search has decided who leads these: today's leader goes on, and nobody is elected.
            led_on = changed & (replicas[:, 0] == problem.leader) & _same_replicas(problem, replicas)
            stays |= led_on
        replicas, changed = _where(stays, problem.replicas, replicas), changed & ~stays
    first = problem.replicas[:, 0]
    wanting = problem.movable & ~changed & ~led_on & (problem.leader != first) & goal.elects
    able = wanting & problem.evened[first] & problem.in_sync[:, 0] & ~problem.closed[problem.leader]
    room = len(able) if most is None else max(0, most - int((changed & (replicas[:, 0] != problem.leader)).sum()))
    elected = able & (np.cumsum(able) <= room)
    leaders = np.where(changed | elected, replicas[:, 0], problem.leader)
    return Ending(
        replicas=replicas,
        lists=_where(changed, replicas, problem.replicas),
        leaders=leaders,
        changed=changed,
        elected=elected,
        leader_changes=int((leaders != problem.leader).sum()),
        beyond=int((able & ~elected).sum()),
        impossible=int((wanting & ~able).sum()),
        left_out=left_out,
    )


def _where(rows: Bools, lists: Ints, others: Ints) -> Ints:
    """[row, position] The lists of these rows, and the others of all others."""
    width = max(lists.shape[1], others.shape[1])
    return np.where(rows[:, None], widened(lists, width), widened(others, width))


def _changed(problem: Problem, replicas: Ints, searched: bool) -> Bools:
    width = max(replicas.shape[1], problem.replicas.shape[1])
    now, was = (widened(lists, width) for lists in (replicas, problem.replicas))
    same: Bools = (now == was).all(axis=1)
    if searched:
        same |= _same_replicas(problem, replicas) & (now[:, 0] == was[:, 0])
    return ~same


def _same_replicas(problem: Problem, replicas: Ints) -> Bools:
    width = max(replicas.shape[1], problem.replicas.shape[1])
    now, was = (np.sort(widened(lists, width), axis=1) for lists in (replicas, problem.replicas))
    same: Bools = (now == was).all(axis=1)
    return same


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
    return topics_in_words(named, len(least))


def exactly_min_insync(problem: Problem, counts: Ints) -> Iterator[Note]:
    """Shorter lists with exactly min.insync.replicas."""
    rows: Bools = (counts < replication(problem.replicas)) & (counts == problem.min_insync)
    if rows.any():
        topics = _of(problem, rows)
        named = [problem.topics[topic] for topic in topics[:_TOPICS_NAMED]]
        yield note(NoteKind.MIN_INSYNC_IS_EXACT, partitions=int(rows.sum()), topics=(named, len(topics)))


def _of(problem: Problem, rows: Bools) -> list[int]:
    topics: list[int] = np.unique(problem.topic[rows]).tolist()
    return topics
