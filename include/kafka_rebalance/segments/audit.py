"""The audit of segment settings: of a cluster as it is, and of what moves would make of it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from kafka_rebalance.documents.segments import (
    BrokerFiles,
    CandidateSegments,
    ClusterSegments,
    OpenFiles,
    SegmentFinding,
    Severity,
    findings_in_order,
    first_findings,
    grouped,
    segment_finding,
)
from kafka_rebalance.documents.snapshot import ClusterConfigs
from kafka_rebalance.errors import KafkaRuleError, ReadError
from kafka_rebalance.kafka.given_json import LONG_MAX
from kafka_rebalance.kafka.segment_roll import BROKER_KEYS, TOPIC_KEYS, EffectiveRollSettings, NotReportedError
from kafka_rebalance.kafka.throttles import LIST_KEYS, RATE_KEYS
from kafka_rebalance.kafka.topic_configs import check_topic_config, check_topic_config_names
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import DEFAULT_BROKER, entity_of
from kafka_rebalance.model.finding import listed
from kafka_rebalance.run.check_result import Check, CheckName
from kafka_rebalance.segments.open_files import Placed, files_now, files_of_moves, too_many_maps
from kafka_rebalance.segments.roll_rules import RULES, TopicData, broken_rules

Settings = dict[tuple[str, int], EffectiveRollSettings]  # by topic and broker

FIELDS = {  # what decides how a topic rolls and is kept -> field of EffectiveRollSettings
    "segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "segment.jitter.ms": "segment_jitter_ms",
    "segment.index.bytes": "segment_index_bytes",
    "index.interval.bytes": "index_interval_bytes",
    "max.message.bytes": "max_message_bytes",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "cleanup.policy": "cleanup_policy",
    "file.delete.delay.ms": "file_delete_delay_ms",
    "max.compaction.lag.ms": "max_compaction_lag_ms",
    "local.retention.ms": "local_retention_ms",  # of tiered topics, as the next
    "local.retention.bytes": "local_retention_bytes",
}
UNKNOWN = "settings_unknown"
_NO_TOPIC = ""  # without overrides: shows what the broker applies by itself


def audit_cluster(placed: Sequence[Placed], configs: ClusterConfigs) -> ClusterSegments:
    """Every finding about the cluster as it is. Nothing is in motion: a snapshot of a moving cluster is refused."""
    stored = _stored_findings(configs)
    pairs = {(partition.topic_partition.topic, broker) for partition in placed for broker in partition.replicas}
    settings, unknown = _known_settings(pairs, configs, stored)
    now = files_now(placed, configs)
    files = [BrokerFiles(broker, of_broker, of_broker, of_broker) for broker, of_broker in sorted(now.items())]
    findings = (
        *stored,
        *unknown,
        *(finding for _, finding in broken_rules(settings, _topic_data(placed, configs))),
        *_brokers_differ({topic for topic, _ in pairs}, configs),
        *_throttles_left(configs),
        *too_many_maps(files),
    )
    errors = sum(finding.severity == "error" for finding in findings)
    looked_at = len({topic for topic, _ in pairs}), len(configs.brokers)
    return ClusterSegments(*looked_at, errors, len(findings) - errors, findings_in_order(findings))


def with_first_findings(audit: ClusterSegments, most: int) -> ClusterSegments:
    """For a document: no more than `most` of the findings; the figures count all."""
    return dataclasses.replace(audit, findings=first_findings(audit.findings, most))


def audit_moves(
    moves: Sequence[Move], now: Mapping[int, OpenFiles], configs: ClusterConfigs, most: int
) -> CandidateSegments:
    """What an approver has to know of these moves: no more than `most` of each list of findings, all counted.

    `now`: open files by broker, of `files_now`.
    """
    files = files_of_moves(now, moves, configs)
    stops = copies_stopped(moves, configs)
    findings = findings_in_order((*_rolls_otherwise(moves, configs), *too_many_maps(files)))
    return CandidateSegments(
        first_findings(stops, most), len(stops), first_findings(findings, most), len(findings), files
    )


def copies_stopped(moves: Sequence[Move], configs: ClusterConfigs) -> tuple[SegmentFinding, ...]:
    """Why a broker could not fetch a replica that these moves give it; empty if all can.

    A setting that is not known does not pass. Below 2.1, if a follower refuses a chunk, its fetcher thread ends. With
    it end the copies of other topics from the same broker.
    """
    pairs = {(move.topic_partition.topic, broker) for move in moves for broker in move.added}
    of_topics = dataclasses.replace(configs, topics={topic: configs.topics.get(topic, {}) for topic, _ in pairs})
    stored = [finding for finding in _stored_findings(of_topics) if finding.rule == UNLOADABLE and finding.topics]
    settings, unknown = _known_settings(pairs, configs, stored)
    broken = (finding for rule, finding in broken_rules(settings, {}) if rule.stops_copies)
    return findings_in_order(dataclasses.replace(finding, severity="error") for finding in (*stored, *unknown, *broken))


def _known_settings(
    pairs: Iterable[tuple[str, int]], configs: ClusterConfigs, stored: Iterable[SegmentFinding]
) -> tuple[Settings, tuple[SegmentFinding, ...]]:
    """The settings of each topic and broker, and findings where they are not known.

    Topics whose `stored` config does not load are left out: that is a finding already, and brokers apply to them what
    they loaded last.
    """
    unloadable = {topic for finding in stored if finding.rule == UNLOADABLE for topic in finding.topics}
    settings: Settings = {}
    down, silent = [], []
    for topic, broker in sorted(pair for pair in pairs if pair[0] not in unloadable):
        if broker not in configs.brokers:
            down.append(("the broker does not answer, so its settings are not known", "no answer", topic, broker))
            continue
        try:
            settings[topic, broker] = configs.roll_settings(topic, broker)
        except (NotReportedError, KafkaRuleError) as bad:
            problem = bad.problem if isinstance(bad, NotReportedError) else bad.kafka_message
            silent.append((problem, "its own answer", topic, broker))
    return settings, (
        *grouped(UNKNOWN, "warning", "Look again when it answers.", down),
        *grouped(UNKNOWN, "error", "Let the Kafka user describe the configs of the cluster.", silent),
    )


def _topic_data(placed: Iterable[Placed], configs: ClusterConfigs) -> dict[str, TopicData]:
    largest: dict[str, int] = {}
    for partition in placed:
        topic = partition.topic_partition.topic
        largest[topic] = max(largest.get(topic, 0), partition.size_bytes)
    return {topic: TopicData(size, configs.append_bytes.get(topic, 0)) for topic, size in largest.items()}


def _differences(then: EffectiveRollSettings, now: EffectiveRollSettings) -> tuple[str, str]:
    """What differs, and where it comes from now: `segment.ms 604800000 -> 3600000`, `segment.ms: log.roll.ms (broker
    static)`.
    """
    changed = [key for key, field in FIELDS.items() if getattr(then, field) != getattr(now, field)]
    values = (f"{key} {_value(then, key)} -> {_value(now, key)}" for key in changed)
    return ", ".join(values), "; ".join(f"{key}: {now.sources.get(key, 'unknown')}" for key in changed)


def _rolls_otherwise(moves: Sequence[Move], configs: ClusterConfigs) -> Iterable[SegmentFinding]:
    """A move alone can change a partition's effective settings: brokers may have other static values."""
    hits = []
    for move in moves:
        topic = move.topic_partition.topic
        settings, _ = _known_settings([(topic, broker) for broker in (*move.before, *move.added)], configs, ())
        origins = [settings[topic, broker] for broker in move.before if (topic, broker) in settings]
        for broker in move.added:
            here = settings.get((topic, broker))
            if here is not None and origins and here not in origins:
                hits.append((*_differences(origins[0], here), topic, broker))
    return grouped(
        "rolls_otherwise",
        "warning",
        "If the setting should stay as it is, set it on the topic, or make server.properties equal.",
        hits,
    )


def _brokers_differ(topics: Collection[str], configs: ClusterConfigs) -> Iterable[SegmentFinding]:
    own = {}
    for broker in sorted(configs.brokers):
        try:
            own[broker] = configs.roll_settings(_NO_TOPIC, broker)
        except (ReadError, KafkaRuleError):
            continue  # that is a finding of its own, for the topics on the broker
    for key in FIELDS:
        values, sources = defaultdict(list), defaultdict(list)
        for broker, settings in own.items():
            values[_value(settings, key)].append(broker)
            sources[str(settings.sources.get(key, "unknown"))].append(broker)
        affected = tuple(sorted(topic for topic in topics if key not in configs.topics.get(topic, {})))
        if len(values) > 1 and affected:
            yield segment_finding(
                "brokers_differ",
                "warning",
                affected,
                tuple(own),
                f"{key} is {_by_broker(values)}",
                _by_broker(sources),
                f"Make the brokers equal, or set {key} on the topics: otherwise it changes with every move.",
            )


def _by_broker(words: Mapping[str, Sequence[int]]) -> str:
    """`604800000 on broker 1, 2; 3600000 on broker 3`."""
    return "; ".join(f"{text} on broker {listed(brokers)}" for text, brokers in words.items())


def _value(settings: EffectiveRollSettings, key: str) -> str:
    value = getattr(settings, FIELDS[key])
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


# Configs in ZooKeeper that brokers cannot load or ignore, and throttles that nobody needs any more.
#
# Tools check what they write; people who write znodes by hand do not. Seen on brokers of 2.0.1, 2.8.2 and 3.9.2, while
# a topic's value does not load:
#
# - Running brokers keep the old value.
# - A broker that is given a replica of the topic refuses it, and the controller then loses leader elections with it.
# - A broker that starts does not come up.
#
# Brokers ignore a name that they do not know. They ignore a broker's own value that does not load, and below 2.8 all
# other values of its znode too.


UNLOADABLE, IGNORED, THROTTLE_LEFT = "unloadable", "ignored", "throttle_left"
# Brokers read the coarser forms, and their own settings, from server.properties alone.
_STATIC_ONLY = frozenset(
    key for key in BROKER_KEYS if key not in TOPIC_KEYS or key.endswith((".hours", ".minutes"))
)  # fmt: skip
_BROKER_NAMES = {topic_key: name for name, topic_key in reversed(TOPIC_KEYS.items()) if name not in _STATIC_ONLY}
_OWN_RULES: dict[str, Callable[[int], bool]] = {  # KafkaConfig asks for more than LogConfig
    "log.index.size.max.bytes": lambda value: value >= 4,
    "log.retention.ms": lambda value: value == -1 or value >= 1,
}
_REMOVE = "Remove it with kafka-configs, and set the name that was meant."
_CORRECT_TOPIC = (
    "Correct it with kafka-configs. Until then no broker can copy the topic, and no broker that has it can start."
)
_CORRECT_BROKER = "Correct it with kafka-configs. It does not apply, and below 2.8 nothing else of this znode does."
_SHOWN = 160  # characters of a value or message


def topic_config_problem(key: str, value: str, version: str) -> tuple[str, str] | None:
    """(rule, words) if `/config/topics/T` must not hold this; None if brokers of that version take it."""
    if key in TOPIC_KEYS:
        return IGNORED, f"{key} is a broker's name, which means nothing here; a topic's is {TOPIC_KEYS[key]}"
    try:
        check_topic_config_names([key], version=version)
    except KafkaRuleError:
        return IGNORED, f"{_shown(key)} is no topic config of Kafka {version}, so it means nothing"
    try:
        check_topic_config(key, value, version=version)
    except KafkaRuleError as refused:
        return UNLOADABLE, _shown(refused.kafka_message)
    return None


def broker_config_problem(key: str, value: str, version: str) -> tuple[str, str] | None:
    """The same for `/config/brokers/N`, for the keys that decide rolling, retention or throttles."""
    if key in _BROKER_NAMES:
        return IGNORED, f"{key} is a topic's name, which means nothing here; a broker's is {_BROKER_NAMES[key]}"
    if key in _STATIC_ONLY:
        return IGNORED, f"{key} is read from server.properties alone, so it means nothing here"
    if key in RATE_KEYS and not (value.strip().isdecimal() and int(value) <= LONG_MAX):
        return UNLOADABLE, f"Invalid value {_shown(value)} for configuration {key}: not whole bytes a second"
    if key in TOPIC_KEYS and topic_config_problem(TOPIC_KEYS[key], value, version):
        return UNLOADABLE, f"Invalid value {_shown(value)} for configuration {key}"
    if key in _OWN_RULES and not _OWN_RULES[key](int(value)):
        return UNLOADABLE, f"Invalid value {_shown(value)} for configuration {key}"
    return None


def _stored_findings(configs: ClusterConfigs) -> tuple[SegmentFinding, ...]:
    """Every config of a topic or broker in ZooKeeper that brokers cannot load or ignore."""
    topics: dict[tuple[str, str], list[str]] = {}
    for topic, values in sorted(configs.topics.items()):
        for key, value in sorted(values.items()):
            if (problem := topic_config_problem(key, value, configs.version)) is not None:
                topics.setdefault(problem, []).append(topic)
    findings = [
        _stored(rule, tuple(names), (), text, "/config/topics", _CORRECT_TOPIC)
        for (rule, text), names in topics.items()
    ]
    for broker, values in sorted(configs.broker_dynamic.items()):
        brokers, source = () if broker == DEFAULT_BROKER else (broker,), f"/config/{entity_of(broker)}"
        for key, value in sorted(values.items()):
            if (problem := broker_config_problem(key, value, configs.version)) is not None:
                findings.append(_stored(problem[0], (), brokers, problem[1], source, _CORRECT_BROKER))
    return tuple(findings)


def _stored(
    rule: str, topics: tuple[str, ...], brokers: tuple[int, ...], text: str, source: str, correct: str
) -> SegmentFinding:
    severity: Severity = "error" if rule == UNLOADABLE else "warning"
    return segment_finding(rule, severity, topics, brokers, text, source, correct if rule == UNLOADABLE else _REMOVE)


def _throttles_left(configs: ClusterConfigs) -> tuple[SegmentFinding, ...]:
    """Throttle keys that are set although nothing moves: they slow later catch-up, and nobody is told."""
    remedy = "Remove it with kafka-configs: it slows every later catch-up."
    if configs.lock_holder is not None:
        remedy = (
            f"The run {configs.lock_holder} holds the cluster and takes it back at its end. If that run is over, clear "
            "its task release_throttle."
        )
    findings = []
    for key in LIST_KEYS:
        topics = tuple(sorted(topic for topic, values in configs.topics.items() if values.get(key)))
        if topics:
            text, source = f"{key} is set", "/config/topics"
            findings.append(segment_finding(THROTTLE_LEFT, "warning", topics, (), text, source, remedy))
    on_brokers: dict[tuple[str, str], list[int]] = {}
    for broker, values in sorted(configs.broker_dynamic.items()):
        for key in RATE_KEYS:
            if key in values:
                on_brokers.setdefault((key, values[key]), []).append(broker)
    for (key, value), brokers in on_brokers.items():
        named = tuple(broker for broker in brokers if broker != DEFAULT_BROKER)
        source = ", ".join(f"/config/{entity_of(broker)}" for broker in brokers[:3]) + (" …" if brokers[3:] else "")
        text = f"{key} is {_shown(value)}"
        findings.append(segment_finding(THROTTLE_LEFT, "warning", (), named, text, source, remedy))
    return tuple(findings)


def _shown(text: str) -> str:
    """Cut, and on one line: a person who writes znodes by hand can write anything."""
    text = "".join(character if character.isprintable() else " " for character in text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


# Whether segments roll as they should on the brokers that hold the moved partitions, and as they did before.
#
# The approver has seen what was wrong at the snapshot: if it still is, it passes with a warning. What became wrong
# since then fails.


_EXPECTATIONS = {
    **{rule.name: rule.expectation for rule in RULES},
    UNLOADABLE: "values that brokers can load",
    IGNORED: "names that brokers know",
    UNKNOWN: "settings known on every broker that holds it",
}
# These may be a warning before the moves, but fail after them.
_AS_SHOWN = "as shown before the approval: "  # of a finding that the approver has seen
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
        checks += _sound(topic, holders, wrong_now, {_what(finding) for finding in wrong_then})
        checks.append(_unchanged(topic, [broker for broker in holders if (topic, broker) in here], then, here))
        if any(move.added for move in of_topic):
            checks.append(_same_on_new_broker(topic, of_topic, then, here))
    return tuple(checks)


def _look(
    topic: str, touched: Iterable[int], holders: Iterable[int], configs: ClusterConfigs, data: TopicData
) -> tuple[Settings, tuple[SegmentFinding, ...]]:
    """The settings on the brokers that are `touched`, and what is wrong on each of the `holders`."""
    of_topic = ClusterConfigs({topic: configs.topics.get(topic, {})}, configs.brokers)
    stored = _stored_findings(of_topic)
    settings, _ = _known_settings([(topic, broker) for broker in touched], of_topic, stored)
    findings = list(stored)
    for broker in holders:
        values, unknown = _known_settings([(topic, broker)], of_topic, stored)
        findings += [*unknown, *(finding for _, finding in broken_rules(values, {topic: data}))]
    return settings, tuple(findings)


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
            yield check(_EXPECTATIONS[rule], f"{_AS_SHOWN}{words}" if was_known else words, True, "warning")
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
            values, sources = _differences(before, here)
            changes.append(f"{values} on broker {broker} ({sources})")
    same = f"as at the snapshot on broker {listed(brokers)}" if brokers else "nothing to compare"
    expectation = "the same settings as at the snapshot"
    return Check(CheckName.SEGMENT_SETTINGS_UNCHANGED, topic, expectation, "; ".join(changes) or same, not changes)


def _same_on_new_broker(topic: str, moves: Sequence[Move], then: Settings, now: Settings) -> Check:
    """A move alone can change a partition's effective settings: brokers may have other static values.

    If the snapshot had both sides as they are now, the approver has seen it.
    """
    differences, all_known = [], True
    for move in moves:
        origins = [then[topic, broker] for broker in move.before if (topic, broker) in then]
        for broker in move.added:
            here, where = now.get((topic, broker)), f"partition {move.topic_partition.partition}, broker {broker}"
            if here is None or not origins:
                differences.append(f"{where}: unknown {'here' if origins else 'on the old brokers'}, so not compared")
                all_known = False
            elif here not in origins:
                values, sources = _differences(origins[0], here)
                differences.append(f"{where}: {values} ({sources})")
                all_known = all_known and then.get((topic, broker)) == here
    finding = "; ".join(differences) or "the same as on a broker that held the partition before"
    expectation = "a partition rolls on its new brokers as it did on its old ones"
    check = partial(Check, CheckName.SEGMENT_SETTINGS_SAME_ON_NEW_BROKER, topic, expectation)
    return (
        check(f"{_AS_SHOWN}{finding}", True, "warning")
        if differences and all_known
        else check(finding, not differences)
    )
