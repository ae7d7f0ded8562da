"""Whether segments roll as they should on the brokers that hold the moved partitions, and as they did before.

The approver has seen what was wrong at the snapshot: if it still is, it passes with a warning. What became wrong since
then fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from kafka_rebalance.documents.cluster_configs import ClusterConfigs
from kafka_rebalance.documents.segments import SegmentFinding
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.finding import listed
from kafka_rebalance.run.check_result import Check, CheckName
from kafka_rebalance.segments.roll_rules import RULES, TopicData, broken_rules
from kafka_rebalance.segments.settings_audit import UNKNOWN, Settings, differences, known_settings
from kafka_rebalance.segments.unloadable_configs import IGNORED, UNLOADABLE, stored_findings

_EXPECTATIONS = {
    **{rule.name: rule.expectation for rule in RULES},
    UNLOADABLE: "values that brokers can load",
    IGNORED: "names that brokers know",
    UNKNOWN: "settings known on every broker that holds it",
}
# These may be a warning before the moves, but fail after them.
_FAILS = frozenset((UNKNOWN, *(rule.name for rule in RULES if rule.stops_copies)))


def check_segments(moves: Sequence[Move], before: ClusterConfigs, now: ClusterConfigs) -> tuple[Check, ...]:
    """For each moved topic `segment_settings_sound`, `segment_settings_unchanged`, and, if it gained a broker,
    `segment_settings_same_on_new_broker`.

    It checks the brokers that hold a moved partition now; if one did not answer, nothing passes for it. `before` and
    `now` hold all of these brokers, and the moved topics.
    """
    checks: list[Check] = []
    for topic in sorted({move.topic_partition.topic for move in moves}):
        of_topic = [move for move in moves if move.topic_partition.topic == topic]
        holders = sorted({broker for move in of_topic for broker in move.after})
        touched = {broker for move in of_topic for broker in (*move.before, *move.after)}
        data = TopicData(max(move.size_bytes for move in of_topic), before.append_bytes.get(topic, 0))
        then, wrong_then = _look(topic, touched, holders, before, data)
        here, wrong_now = _look(topic, touched, holders, now, data)
        checks += _sound(topic, holders, wrong_now, {_what(found) for found in wrong_then})
        checks.append(_unchanged(topic, [broker for broker in holders if (topic, broker) in here], then, here))
        if any(move.added for move in of_topic):
            checks.append(_same_on_new_broker(topic, of_topic, then, here))
    return tuple(checks)


def _look(
    topic: str, touched: Iterable[int], holders: Iterable[int], configs: ClusterConfigs, data: TopicData
) -> tuple[Settings, tuple[SegmentFinding, ...]]:
    """The settings on the brokers that are `touched`, and what is wrong on each of the `holders`."""
    of_topic = ClusterConfigs({topic: configs.topics.get(topic, {})}, configs.brokers)
    stored = stored_findings(of_topic)
    settings, _ = known_settings([(topic, broker) for broker in touched], of_topic, stored)
    found = list(stored)
    for broker in holders:
        values, unknown = known_settings([(topic, broker)], of_topic, stored)
        found += [*unknown, *(finding for _, finding in broken_rules(values, {topic: data}))]
    return settings, tuple(found)


def _what(finding: SegmentFinding) -> tuple[str, tuple[int, ...], str]:
    """Two findings are the same if these are, even if their values come from another level of the configs."""
    return finding.rule, finding.brokers, finding.text


def _sound(
    topic: str,
    holders: Sequence[int],
    wrong: Sequence[SegmentFinding],
    known: set[tuple[str, tuple[int, ...], str]],
) -> Iterable[Check]:
    """One check for each broken rule, with its brokers; one passed check if all rules hold."""
    check = partial(Check, CheckName.SEGMENT_SETTINGS_SOUND, topic)
    told: dict[tuple[str, str, bool], list[SegmentFinding]] = {}
    for finding in wrong:
        told.setdefault((finding.rule, finding.text, _what(finding) in known), []).append(finding)
    for (rule, text, was_known), findings in told.items():
        brokers = [broker for finding in findings for broker in finding.brokers]
        where = f" on broker {listed(brokers)}" if brokers else ""
        words = f"{text}{where} ({findings[0].source})"
        if was_known or (findings[0].severity != "error" and rule not in _FAILS):
            yield check(_EXPECTATIONS[rule], words, True, "warning", was_shown=was_known)
        else:
            yield check(_EXPECTATIONS[rule], words, False)
    if not wrong:
        words = f"all {len(RULES)} rules hold on broker {listed(holders)}"
        yield check("every rule for segment settings holds", words, True)


def _unchanged(topic: str, brokers: Sequence[int], then: Settings, now: Settings) -> Check:
    """The same broker, then and now."""
    changes = []
    for broker in brokers:
        before, here = then.get((topic, broker)), now[topic, broker]
        if before is None:
            changes.append(f"unknown at the snapshot on broker {broker}")
        elif before != here:
            values, sources = differences(before, here)
            changes.append(f"{values} on broker {broker} ({sources})")
    same = f"as at the snapshot on broker {listed(brokers)}" if brokers else "nothing to compare"
    expectation = "the same settings as at the snapshot"
    return Check(CheckName.SEGMENT_SETTINGS_UNCHANGED, topic, expectation, "; ".join(changes) or same, not changes)


def _same_on_new_broker(topic: str, moves: Sequence[Move], then: Settings, now: Settings) -> Check:
    """A move alone can change a partition's effective settings: brokers may have other static values.

    If the snapshot had both sides as they are now, the approver has seen it.
    """
    found, all_known = [], True
    for move in moves:
        origins = [then[topic, broker] for broker in move.before if (topic, broker) in then]
        for broker in move.added:
            here, where = now.get((topic, broker)), f"partition {move.topic_partition.partition}, broker {broker}"
            if here is None or not origins:
                found.append(f"{where}: unknown {'here' if origins else 'on the old brokers'}, so not compared")
                all_known = False
            elif here not in origins:
                values, sources = differences(origins[0], here)
                found.append(f"{where}: {values} ({sources})")
                all_known = all_known and then.get((topic, broker)) == here
    finding = "; ".join(found) or "the same as on a broker that held the partition before"
    expectation = "a partition rolls on its new brokers as it did on its old ones"
    check = partial(Check, CheckName.SEGMENT_SETTINGS_SAME_ON_NEW_BROKER, topic, expectation, finding)
    return check(True, "warning", was_shown=True) if found and all_known else check(not found)
