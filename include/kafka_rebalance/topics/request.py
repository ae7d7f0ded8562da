"""A person approves one change of one topic, or rejects it. A creation needs no approval: it removes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_rebalance.documents import json_files
from kafka_rebalance.model.consumer_groups import CLASSIC, SHARE, STREAMS
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.topic_change import TopicChange
from kafka_rebalance.pages.markdown import asked_by, code, on_cluster, table
from kafka_rebalance.pages.units import format_bytes, format_count, format_factor, format_share
from kafka_rebalance.run.approval_request import Approval, Offer, RunLinks, offer_in
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.topics.forecast import FORECAST_FILE, GroupForecast, TopicForecast
from kafka_rebalance.topics.read import PartitionFound, TopicFound
from kafka_rebalance.topics.rules import TOPIC_FILE, RequestedChange, needs_approval


class TopicApproval(Approval):
    """Offers the change of topic.json. A dry run ends here."""

    behind = ("write", "verify")
    shown = (json_files.TOPIC, json_files.FORECAST)

    def offer(self, folder: RunFolder) -> Offer:
        written, digest = TOPIC_FILE.read_with_digest(folder)
        return offer_in(
            written,
            digest,
            {written.change.action: written.digest},
            nothing="This was a dry run. Nothing was written to the cluster." if written.dry_run else None,
            needs_answer=needs_approval(written.change.action),  # whatever else the file says: people can edit it
        )

    def texts(self, folder: RunFolder, links: RunLinks) -> tuple[str, str]:
        written, forecast = TOPIC_FILE.read(folder), FORECAST_FILE.read_if_there(folder)
        return approval_subject(written), approval_body(written, forecast)


# The texts of `kafka_topics` for a change: lines for the log, and an approval request.


_SHOWN = 12
_NOBODY = "no consumer group reads this topic"


def change_lines(document: RequestedChange) -> tuple[str, ...]:
    """What will be written, and what it costs."""
    change = document.change
    new = sorted(change.new_partitions.items())
    lines = [f"partition {partition}: replicas {_kafka_ids(held)}" for partition, held in new[:_SHOWN]]
    if len(new) > _SHOWN:
        lines.append(f"and {len(new) - _SHOWN} more partitions")
    lines += [
        f"config {key}: {_value(change.configs_before.get(key))} -> {_value(value)}"
        for key, value in change.config_changes.items()
    ]
    lines += [
        f"broker {cost.broker}: {cost.replicas} replicas, {cost.leaders} of them leaders, "
        f"{format_bytes(cost.bytes)} expected, disk {format_share(cost.disk_fraction_after)} after"
        for cost in document.costs
    ]
    return (*lines, *(f"note: {note}" for note in document.notes))


def approval_subject(document: RequestedChange) -> str:
    """One line of plain text: what happens to which topic."""
    change = document.change
    return f"Kafka {document.connection_id}: {_headline(change, change.topic)}?"


def approval_body(document: RequestedChange, forecast: TopicForecast | None) -> str:
    """Markdown: what will be written, what it costs, and the effect on keys and consumers."""
    change = document.change
    parts = [
        f"**{_headline(change, code(change.topic, 120))}** {on_cluster(document.connection_id, change.cluster_id)}",
        asked_by(document.requested_by, document.reason),
    ]
    if change.action == "delete":
        parts.append(_deletion(document))
    if forecast is not None:
        parts.append("\n".join(f"- {code(line, 400)}" for line in forecast_lines(forecast)))
    if new := sorted(change.new_partitions.items()):
        rows: list[tuple[object, ...]] = [(partition, _kafka_ids(held)) for partition, held in new[:_SHOWN]]
        rows += [("…", f"{len(new) - _SHOWN} more")] if len(new) > _SHOWN else []
        parts.append(table(("#New partition", "Replicas, preferred leader first"), rows))
    if new and (costs := document.costs):
        rows = [
            (
                cost.broker,
                f"+{cost.replicas}",
                f"+{cost.leaders}",
                format_bytes(cost.bytes),
                format_share(cost.disk_fraction_after),
            )
            for cost in costs[:_SHOWN]
        ]
        rows += [("…", f"{len(costs) - _SHOWN} more brokers", "", "", "")] if len(costs) > _SHOWN else []
        parts.append(table(("#Broker", "#Replicas", "#Leaders", "#Expected", "#Disk after"), rows))
    if change.config_changes:
        rows = [
            (code(key, 80), code(_value(change.configs_before.get(key)), 120), code(_value(value), 120))
            for key, value in change.config_changes.items()
        ]
        parts.append(table(("Config", "Now", "After"), rows))
    if document.notes:
        parts.append("\n".join(f"- {code(note, 300)}" for note in document.notes))
    parts.append(f"**Digest** {code(document.digest, 80)}")
    return "\n\n".join(parts)


def _headline(change: TopicChange, topic: str) -> str:
    if change.action == "delete":
        return f"delete {topic} with its {format_count(change.partitions_before, 'partition', 'partitions')}"
    done = []
    if change.new_partitions:
        after = change.partitions_before + len(change.new_partitions)
        done.append(f"{change.partitions_before} to {after} partitions")
    if change.config_changes:
        done.append(format_count(len(change.config_changes), "config", "configs"))
    return f"alter {topic}: {' and '.join(done) or 'nothing'}"


def _deletion(document: RequestedChange) -> str:
    size, groups = document.size_bytes, document.groups
    used = "Whether consumers use it is not known: the consumer groups could not be read"
    not_read = [code(line, 400) for line in _not_read(document.groups_not_read)]
    if groups:
        names = ", ".join(_named(document, group) for group in groups[:_SHOWN])
        more = f" and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
        used = f"{format_count(len(groups), 'consumer group', 'consumer groups')} of it: {names}{more}"
    elif groups is not None and not_read:
        used = "Of the groups that could be read, none has members or offsets for it"
    elif groups is not None:
        used = "No consumer group has members or offsets for it"
    text = (
        f"**All of its data is lost**: {format_bytes(size)} in one replica of each partition. {used}. There is no way "
        "back."
    )
    if not_read:
        text += "\n\n**Whether these use it is not known**:\n\n" + "\n".join(f"- {line}" for line in not_read)
    return text


def _named(document: RequestedChange, group: str) -> str:
    kind = (document.group_types or {}).get(group, CLASSIC)
    return code(group, 60) + (f" ({kind} group)" if kind in (SHARE, STREAMS) else "")


def _not_read(unread: Sequence[Finding]) -> list[str]:
    """Groups that could not be read, each with the reason and what to do."""
    lines = [f"{finding.subject}: {finding.problem}. {finding.remedy}" for finding in unread[:_SHOWN]]
    return [*lines, *([f"and {len(unread) - _SHOWN} more"] if len(unread) > _SHOWN else [])]


def forecast_lines(forecast: TopicForecast) -> tuple[str, ...]:
    """The effect of an expansion on keys and consumers, one sentence a line, the most important first."""
    keys, groups = forecast.keys, forecast.groups
    lines = [
        f"{format_share(keys.moved_keys)} of all keys change their partition from {keys.before} to "
        f"{keys.after} partitions (exactly {keys.moved_keys_exact}); the order of their messages across the "
        "change is lost",
        keys.text,
    ]
    chosen = keys.chosen
    if chosen is not None and keys.skew_before is not None:
        lines.append(
            f"fullest partition over the mean: {format_factor(keys.skew_before)} now, "
            f"{format_factor(chosen.skew)} with {chosen.partitions}; {format_share(chosen.moved_rows)} of the "
            "sampled rows move"
        )
    lines += [
        f"better: {count.partitions} partitions, {format_factor(count.skew)} times the mean, "
        f"{format_share(count.moved_keys)} of the keys move"
        for count in keys.better
    ]
    if groups is None:
        lines.append(f"consumer groups: {forecast.groups_unread}")
    else:
        not_read = [f"not known whether it reads this topic: {line}" for line in _not_read(forecast.groups_not_read)]
        none = "of the groups that could be read, none reads this topic" if not_read else _NOBODY
        lines += [_group_line(group) for group in groups[:_SHOWN]] or [none]
        lines += not_read
        if len(groups) > _SHOWN:
            lines.append(f"and {len(groups) - _SHOWN} more consumer groups, in forecast.json")
    return tuple(lines)


def _group_line(group: GroupForecast) -> str:
    kind = group.type
    called = f"{kind} group {group.group}" if kind in (SHARE, STREAMS) else f"group {group.group}"
    if not group.members:
        return f"{called}: no members now, its offsets stay"
    text = f"{called}: {format_count(group.members, 'member', 'members')}"
    if kind == SHARE:
        return f"{text}, which share the records of all partitions, new ones too"
    if kind == STREAMS:
        return f"{text}; its tasks and their state are bound to partition numbers, so the application must be reset"
    text += f", {group.assignor}"
    for under in group.assignors:
        mark = " (in use)" if under.in_use else ""
        text += (
            f"; {under.assignor}{mark} imbalance {format_factor(under.imbalance_before)} to "
            f"{format_factor(under.imbalance_after)}, idle {under.idle_before} to {under.idle_after}"
        )
    if group.no_longer_matching:
        others = ", ".join(group.no_longer_matching[:_SHOWN])
        text += f"; {others} had the same number of partitions and will not: a join with them by key breaks"
    return text


def _value(value: str | None) -> str:
    return "not set" if value is None else value


# Topics as kafka-topics lists and describes them.


def list_lines(entries: Sequence[TopicFound]) -> tuple[str, ...]:
    """As `kafka-topics --list`."""
    return tuple(
        f"{entry.topic} - marked for deletion" if entry.marked_for_deletion else entry.topic for entry in entries
    )


def describe_lines(entries: Sequence[TopicFound]) -> tuple[str, ...]:
    """As `kafka-topics --describe`, with each partition's size and state; the size is that of the leader's replica."""
    lines = []
    for entry in entries:
        configs = ",".join(f"{key}={value}" for key, value in entry.configs.items())
        deletion = "\tMarkedForDeletion:true" if entry.marked_for_deletion else ""
        lines.append(
            f"Topic:{entry.topic}\tPartitionCount:{entry.partition_count}\t"
            f"ReplicationFactor:{entry.replication_factor}\tConfigs:{configs}{deletion}\t"
            f"Size:{format_bytes(entry.size_bytes)}\tUnderReplicated:{entry.under_replicated}\t"
            f"Unavailable:{entry.unavailable}"
        )
        lines += [_partition_line(entry.topic, partition) for partition in entry.partitions]
    return tuple(lines)


def _partition_line(topic: str, partition: PartitionFound) -> str:
    leader = "none" if partition.leader is None else partition.leader
    marks = [name.replace("_", " ") for name in ("unavailable", "under_replicated") if getattr(partition, name)]
    marks += [f"adding {_kafka_ids(partition.adding)}"] if partition.adding else []
    marks += [f"removing {_kafka_ids(partition.removing)}"] if partition.removing else []
    return (
        f"\tTopic: {topic}\tPartition: {partition.partition}\tLeader: {leader}"
        f"\tReplicas: {_kafka_ids(partition.replicas)}\tIsr: {_kafka_ids(partition.isr)}"
        f"\tSize: {format_bytes(partition.size_bytes)}" + (f"\t{', '.join(marks)}" if marks else "")
    )


def _kafka_ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
