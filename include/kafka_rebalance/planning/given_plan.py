"""Candidates that the planner does not search: a plan that the requester gives, and the proposal of Kafka's own tool.

They have the same figures and limits as the planner's own. The planner takes no move out of them: a plan beyond a limit
is infeasible, and its note has the figures.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kafka_rebalance.documents.proposals import LessEven, MoveReason, ReasonKind
from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.reassign_tool_files import check_executable, generate, parse_plan
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
    goal, notes = goal_of(problem.settings, name), []
    if name == AS_KAFKA:
        reason, who = ReasonKind.AS_KAFKA, "the proposal of Kafka's own tool"
        try:
            lists = {tp: held for part in parts_of(problem) for tp, held in _generated(part.problem).items()}
            replicas = _applied(problem, lists)
        except KafkaRuleError as refused:
            return infeasible(problem, name, f"Kafka's own tool would refuse: {refused}")
    else:
        reason, who = ReasonKind.GIVEN, "the given plan"
        lists = parse_plan(problem.settings.plan or "")
        replicas = _applied(problem, lists)
        notes = _notes(problem, lists, replicas)
    parts = parts_of(problem)
    budget = spent(problem, replicas)
    beyond = [f"{used:,} against {limit} {allowed:,}" for limit, used, allowed in budget.exceeded()]
    beyond += [words for part in parts for words in _kept_out(part.problem, replicas[part.rows])]
    beyond += _wrongly_led(problem, replicas) + _too_short(problem, replicas)
    beyond += [words for limit in BROKER_LIMITS for words in limit.broken_by(problem, replicas)]
    if beyond:
        text = f"The run does not offer {who}, because it is beyond the limits: {'; '.join(beyond)}."
        return infeasible(problem, name, text)
    reasons = (MoveReason(reason),)
    each = [_found(part.problem, goal, replicas[part.rows], reasons) for part in parts]
    found = joined(problem, each) if problem.pools.are_several else each[0]
    was_broken, is_broken = broken_lists(found.rules, problem.replicas), broken_lists(found.rules, replicas)
    newly = int((is_broken & ~was_broken).sum())
    if newly:
        notes.append(f"{newly} partitions that keep the rack rule now would break it")
    plan = described_candidate(problem, name, replace(found, notes=tuple(notes)))
    if name == GIVEN and problem.settings.less_even_plan == REFUSE and (worse := plan.less_even()) is not None:
        return infeasible(problem, name, _less_even_note(worse))
    return plan


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


def _less_even_note(worse: LessEven) -> str:
    before, after = worse.before, worse.after
    return (
        "The run does not offer the given plan, because it ends less even than the cluster is: brokers carry "
        f"{before.lowest:.2f} to {before.highest:.2f} of their share of {worse.metric} now, and would carry "
        f"{after.lowest:.2f} to {after.highest:.2f}. The policy's less_even_plan refuses such plans."
    )


def _existing(problem: Problem) -> dict[TopicPartition, tuple[int, ...]]:
    """Every partition of the snapshot with its list of broker ids."""
    lists = np.where(problem.replicas >= 0, problem.brokers[np.maximum(problem.replicas, 0)], -1).tolist()
    return {
        TopicPartition(problem.topics[topic], partition): tuple(broker for broker in brokers if broker >= 0)
        for topic, partition, brokers in zip(problem.topic.tolist(), problem.partition.tolist(), lists, strict=True)
    }


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


def _notes(problem: Problem, lists: Lists, replicas: Ints) -> list[str]:
    """What the approver must know about a given plan beside its figures."""
    notes = []
    same = len(lists) - int(changed_lists(problem.replicas, replicas).sum())
    if same:
        notes.append(f"{same} of the plan's {len(lists)} partitions already match it, and are left out")
    before, after = replication(problem.replicas), replication(replicas)
    kinds = Counter(zip(before[before != after].tolist(), after[before != after].tolist(), strict=True))
    if kinds:
        each = ", ".join(f"{count} from {old} to {new}" for (old, new), count in sorted(kinds.items()))
        notes.append(f"the replication factor changes for {kinds.total()} partitions: {each}")
    return notes


def _wrongly_led(problem: Problem, replicas: Ints) -> list[str]:
    """Lists whose first replica the run must not elect."""
    found = wrongly_elected(problem, replicas, changed_lists(problem.replicas, replicas))
    words = {MayNotLead.CLOSED: "is in brokers_out", MayNotLead.OUT_OF_ISR: "is out of the ISR in the snapshot"}
    return [
        f"{len(rows)} partitions would elect a first replica that {said}, first {problem.name_of(rows[0])} (broker "
        f"{problem.brokers[replicas[rows[0], 0]]}): put another one first"
        for why, said in words.items()
        if (rows := [row for row, reason in found.items() if reason is why])
    ]


def _too_short(problem: Problem, replicas: Ints) -> list[str]:
    """That lists get shorter than min.insync.replicas, with their topics."""
    below = cut_below(problem, replication(replicas))
    if not below.any():
        return []
    return [
        f"{int(below.sum())} partitions would have fewer replicas than min.insync.replicas: "
        f"{topics_and_least(problem, below)}, first {_first(problem, below)}; producers with acks=all would fail"
    ]


def _first(problem: Problem, rows: Bools) -> TopicPartition:
    return problem.name_of(np.flatnonzero(rows)[0])


def _kept_out(problem: Problem, replicas: Ints) -> list[str]:
    """What the settings, and through them the policy, keep out although the lists would change it."""
    before, found = widened(problem.replicas, replicas.shape[1]), []
    held: Bools = changed_lists(problem.replicas, replicas) & ~problem.movable & ~_on_cordoned(problem)
    if held.any():
        found.append(
            f"{int(held.sum())} partitions may not be changed (topics_in, topics_out, internal topics), first "
            f"{_first(problem, held)}"
        )
    found += _unpinned(problem, before, replicas)
    gained, lost = (replicas >= 0) & ~among(replicas, before), (before >= 0) & ~among(before, replicas)
    leads = replicas[:, 0] != before[:, 0]
    touched = np.unique(np.concatenate([replicas[gained], before[lost], replicas[leads, 0], before[leads, 0]]))
    closed = touched[problem.closed[touched] & ~problem.cordoned[touched]]
    if len(closed):
        found.append(f"brokers_out keeps out {_ids(problem, closed)}, which would gain or lose replicas or leaders")
    emptied = np.unique(replicas[gained][problem.leaving[replicas[gained]]])
    if len(emptied):
        found.append(f"{_ids(problem, emptied)} would receive replicas, but must be emptied")
    outside = strays(problem, replicas) & gained
    if outside.any():
        row, column = np.argwhere(outside)[0]
        name, broker = problem.topics[problem.topic[row]], problem.brokers[replicas[row, column]]
        found.append(
            f"{int(outside.any(axis=1).sum())} partitions would get replicas outside the pools of their topics "
            f"(broker_pools), first {problem.name_of(row)}: broker {broker} is not in the pool of {name}"
        )
    for rule in move_rules(problem, rack_rule(problem)):
        found += rule.broken_by(problem, replicas)
    return found


def _on_cordoned(problem: Problem) -> Bools:
    """[partition row] Partitions with a replica on a cordoned broker; `_kept_out` has words of their own for these."""
    return naming(problem.replicas, problem.cordoned)


def _unpinned(problem: Problem, before: Ints, replicas: Ints) -> list[str]:
    """Partitions of `pinned_topics` that would get other brokers, and of `rack_pinned_topics` other racks."""
    found, numbers = [], {rack: number for number, rack in enumerate(dict.fromkeys(problem.racks))}
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
            off = f"partitions of {setting} would be moved off theirs, first {_first(problem, moved)}"
            found.append(f"{int(moved.sum())} {off}")
    return found


def _ids(problem: Problem, brokers: Ints) -> str:
    return f"broker{'s' * (len(brokers) > 1)} {', '.join(map(str, problem.brokers[brokers].tolist()))}"
