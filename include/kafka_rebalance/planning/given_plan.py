"""Candidates that the planner does not search: a plan that the requester gives, and the proposal of Kafka's own tool.

They have the same figures and limits as the planner's own. The planner takes no move out of them: a plan beyond a limit
is infeasible, and its note has the figures.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from kafka_rebalance.documents.candidate_notes import Note, NoteKind, note
from kafka_rebalance.documents.proposals import MoveReason, ReasonKind
from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.reassignment_json import check_executable, generate, parse_plan
from kafka_rebalance.model.partition import MayNotLead, TopicPartition
from kafka_rebalance.model.settings import AS_KAFKA, GIVEN, REFUSE
from kafka_rebalance.planning.bounds.targets import leader_targets
from kafka_rebalance.planning.describe.described_candidate import (
    DescribedCandidate,
    described_candidate,
    infeasible,
)
from kafka_rebalance.planning.problem.arrays import (
    Bools,
    Ints,
    Problem,
    among,
    changed_lists,
    led_first,
    naming,
    replication,
    widened,
)
from kafka_rebalance.planning.problem.pools import parts_of, strays
from kafka_rebalance.planning.rules.goals import Goal, goal_of
from kafka_rebalance.planning.rules.leaders import cut_below, topics_and_least, wrongly_elected
from kafka_rebalance.planning.rules.rack_rule import broken_lists, rack_rule
from kafka_rebalance.planning.rules.where_replicas_may_go import BROKER_LIMITS, move_rules
from kafka_rebalance.planning.search.frame import FoundLists, frame_of, joined
from kafka_rebalance.planning.search.placement import spent

Lists = Mapping[TopicPartition, Sequence[int]]


def check_plan(problem: Problem) -> None:
    """Raises KafkaRuleError if the settings' plan names what the snapshot does not have, as Kafka's tool would."""
    if problem.settings.plan is not None:
        registered = problem.brokers[problem.registered].tolist()
        check_executable(parse_plan(problem.settings.plan), _existing(problem), registered)


def propose_given(problem: Problem, name: str) -> DescribedCandidate:
    """The candidate of that name as it was given, or infeasible with the figures if it is beyond the limits."""
    by_kafka = name == AS_KAFKA
    if by_kafka:
        try:
            lists = _generated_by_pool(problem)
        except KafkaRuleError as refused:
            return infeasible(problem, name, note(NoteKind.KAFKA_REFUSES, error=str(refused)))
    else:
        lists = parse_plan(problem.settings.plan or "")
    replicas = _applied(problem, lists)
    beyond = tuple(_beyond(problem, replicas))
    if beyond:
        who = "the proposal of Kafka's own tool" if by_kafka else "the given plan"
        return infeasible(problem, name, note(NoteKind.NOT_OFFERED, who=who, why=beyond))
    goal = goal_of(problem.settings, name)
    reasons = (MoveReason(ReasonKind.AS_KAFKA if by_kafka else ReasonKind.GIVEN),)
    each = [_found(part.problem, goal, replicas[part.rows], reasons) for part in parts_of(problem)]
    found = joined(problem, each) if problem.pools.are_several else each[0]
    own = () if by_kafka else _differences(problem, lists, replicas)
    plan = described_candidate(problem, name, replace(found, notes=(*own, *_newly_broken(problem, found))))
    if name == GIVEN and problem.settings.less_even_plan == REFUSE and (worse := plan.less_even()) is not None:
        figures = {"metric": worse.metric, "before": worse.before, "after": worse.after}
        return infeasible(problem, name, Note(NoteKind.LESS_EVEN, figures))
    return plan


def _beyond(problem: Problem, replicas: Ints) -> Iterator[Note]:
    """Every limit and rule that these lists would break."""
    for exceeded in spent(problem, replicas).exceeded():
        yield note(NoteKind.LIMIT_EXCEEDED, limits=[exceeded])
    for part in parts_of(problem):
        yield from _kept_out(part.problem, replicas[part.rows])
    yield from _wrongly_led(problem, replicas)
    yield from _too_short(problem, replicas)
    for limit in BROKER_LIMITS:
        yield from limit.broken_by(problem, replicas)


def _newly_broken(problem: Problem, found: FoundLists) -> Iterator[Note]:
    was_broken, is_broken = (broken_lists(found.rules, lists) for lists in (problem.replicas, found.replicas))
    if newly := int((is_broken & ~was_broken).sum()):
        yield note(NoteKind.RACKS_NEWLY_BROKEN, partitions=newly)


def _found(problem: Problem, goal: Goal, replicas: Ints, reasons: tuple[MoveReason, ...]) -> FoundLists:
    """The given lists as lists that a search would have found."""
    frame = frame_of(problem, goal, replication(replicas))
    # A replica that stays on a broker that leaves is none of the copies that every plan needs.
    at = np.maximum(replicas, 0)
    stays = problem.staying[at] | strays(problem, replicas)
    wanted = frame.wanted - ((replicas >= 0) & ~stays).sum(axis=1)
    moved = changed_lists(problem.replicas, replicas)
    targets = leader_targets(problem, led_first(replicas, np.where(moved, replicas[:, 0], problem.leader)))
    return FoundLists(
        replicas=replicas,
        unordered=replicas,
        goal=goal,
        rules=((np.arange(len(replicas)), frame.rule),),
        wanted=wanted,
        targets=frame.targets,
        leader_targets=targets,
        scale=frame.scale,
        budget=spent(problem, replicas),
        reasons=reasons,
    )


def _existing(problem: Problem) -> dict[TopicPartition, tuple[int, ...]]:
    """Every partition of the snapshot with its list of broker ids."""
    lists = np.where(problem.replicas >= 0, problem.brokers[np.maximum(problem.replicas, 0)], -1).tolist()
    return {
        TopicPartition(problem.topics[topic], partition): tuple(broker for broker in brokers if broker >= 0)
        for topic, partition, brokers in zip(problem.topic.tolist(), problem.partition.tolist(), lists, strict=True)
    }


def _generated_by_pool(problem: Problem) -> dict[TopicPartition, tuple[int, ...]]:
    return {tp: brokers for part in parts_of(problem) for tp, brokers in _generated(part.problem).items()}


def _generated(problem: Problem) -> dict[TopicPartition, tuple[int, ...]]:
    """What `--generate` proposes for the topics that may be changed, onto the brokers that may receive replicas.

    Raises KafkaRuleError where the tool would, and for a topic whose partition ids have gaps. The tool numbers
    partitions from 0, and would name partitions that do not exist.
    """
    fixed = set(problem.topic[~problem.relocatable | problem.rack_pinned].tolist())
    topics = [topic for number, topic in enumerate(problem.topics) if number in problem.topic and number not in fixed]
    racks = {
        int(broker): rack
        for broker, rack, receives in zip(problem.brokers, problem.racks, problem.receivers, strict=True)
        if receives
    }
    # If a rack is unknown, the cluster has no rack rule (rules.rack_rule), so this is --disable-rack-aware.
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    aware = known if len(known) == len(racks) else None
    existing = _existing(problem)
    lists = generate(topics, existing, sorted(racks), aware, random.Random(problem.settings.seed))
    check_executable(lists, existing, sorted(racks))
    return lists


def _applied(problem: Problem, lists: Lists) -> Ints:
    """The snapshot's lists, replaced by these, as broker indices."""
    result = widened(problem.replicas, max((len(brokers) for brokers in lists.values()), default=0)).copy()
    topic_of = {topic: number for number, topic in enumerate(problem.topics)}
    row_of = {key: row for row, key in enumerate(zip(problem.topic.tolist(), problem.partition.tolist(), strict=True))}
    for (topic, partition), brokers in lists.items():
        row = row_of[topic_of[topic], partition]
        result[row] = -1
        result[row, : len(brokers)] = np.searchsorted(problem.brokers, list(brokers))
    return result


def _differences(problem: Problem, lists: Lists, replicas: Ints) -> Iterator[Note]:
    """What the approver must know about a given plan beside its figures."""
    if same := len(lists) - int(changed_lists(problem.replicas, replicas).sum()):
        yield note(NoteKind.MATCH_ALREADY, same=same, partitions=len(lists))
    before, after = replication(problem.replicas), replication(replicas)
    counts = Counter(zip(before[before != after].tolist(), after[before != after].tolist(), strict=True))
    if counts:
        kinds = [(old, new, count) for (old, new), count in sorted(counts.items())]
        yield note(NoteKind.FACTORS_CHANGE, partitions=counts.total(), kinds=kinds)


_WRONGLY_LED = {MayNotLead.CLOSED: NoteKind.ELECTS_CLOSED, MayNotLead.OUT_OF_ISR: NoteKind.ELECTS_OUT_OF_ISR}


def _wrongly_led(problem: Problem, replicas: Ints) -> Iterator[Note]:
    """Lists whose first replica the run must not elect."""
    wrong = wrongly_elected(problem, replicas, changed_lists(problem.replicas, replicas))
    for why, kind in _WRONGLY_LED.items():
        if rows := [row for row, reason in wrong.items() if reason is why]:
            first, broker = problem.name_of(rows[0]), int(problem.brokers[replicas[rows[0], 0]])
            yield note(kind, partitions=len(rows), first=first, broker=broker)


def _too_short(problem: Problem, replicas: Ints) -> Iterator[Note]:
    """That lists get shorter than min.insync.replicas, with their topics."""
    below = cut_below(problem, replication(replicas))
    if below.any():
        topics = topics_and_least(problem, below)
        yield _of_rows(problem, NoteKind.BELOW_MIN_INSYNC, below, topics=topics)


def _of_rows(problem: Problem, kind: NoteKind, rows: Bools, **figures: object) -> Note:
    """A note on so many partitions, with the first of them."""
    return note(kind, partitions=int(rows.sum()), first=problem.name_of(np.flatnonzero(rows)[0]), **figures)


def _kept_out(problem: Problem, replicas: Ints) -> Iterator[Note]:
    """What the settings, and through them the policy, keep out although the lists would change it."""
    before = widened(problem.replicas, replicas.shape[1])
    on_cordoned = naming(problem.replicas, problem.cordoned)  # these have a note of their own
    held: Bools = changed_lists(problem.replicas, replicas) & ~problem.movable & ~on_cordoned
    if held.any():
        yield _of_rows(problem, NoteKind.KEPT_OUT, held)
    yield from _unpinned(problem, before, replicas)
    gained, lost = (replicas >= 0) & ~among(replicas, before), (before >= 0) & ~among(before, replicas)
    leads = replicas[:, 0] != before[:, 0]
    touched = np.unique(np.concatenate([replicas[gained], before[lost], replicas[leads, 0], before[leads, 0]]))
    closed = touched[problem.closed[touched] & ~problem.cordoned[touched]]
    if len(closed):
        yield note(NoteKind.TOUCHES_BROKERS_OUT, brokers=problem.brokers[closed].tolist())
    emptied = np.unique(replicas[gained][problem.leaving[replicas[gained]]])
    if len(emptied):
        yield note(NoteKind.FILLS_LEAVING_BROKERS, brokers=problem.brokers[emptied].tolist())
    outside = strays(problem, replicas) & gained
    if outside.any():
        row, column = np.argwhere(outside)[0]
        topic, broker = problem.topics[problem.topic[row]], int(problem.brokers[replicas[row, column]])
        rows = np.any(outside, axis=1)
        yield _of_rows(problem, NoteKind.LEAVES_ITS_POOL, rows, broker=broker, topic=topic)
    for rule in move_rules(problem, rack_rule(problem)):
        yield from rule.broken_by(problem, replicas)


def _unpinned(problem: Problem, before: Ints, replicas: Ints) -> Iterator[Note]:
    """Partitions of `pinned_topics` that would get other brokers, and of `rack_pinned_topics` other racks."""
    numbers = {rack: number for number, rack in enumerate(dict.fromkeys(problem.racks))}
    domain = np.array([-2 if rack is None else numbers[rack] for rack in problem.racks], dtype=np.int64)
    racks = [np.sort(np.where(lists >= 0, domain[np.maximum(lists, 0)], -1), axis=1) for lists in (before, replicas)]
    # A new replica, or one from a broker of unknown rack, may be in any rack.
    known = (racks[0] >= -1).all(axis=1) & (replication(before) == replication(replicas))
    for setting, rows, was, now in (
        ("pinned_topics", problem.pinned, np.sort(before, axis=1), np.sort(replicas, axis=1)),
        ("rack_pinned_topics", problem.rack_pinned & known, *racks),
    ):
        moved = rows & (was != now).any(axis=1)
        if moved.any():
            yield _of_rows(problem, NoteKind.UNPINNED, moved, setting=setting)
