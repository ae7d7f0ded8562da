"""Notes on a candidate: kinds with figures, which the planner makes, and their English in proposals.json.

Code that must know a fact asks the kind of a note, and never its words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from string import Formatter
from typing import Any

from kafka_rebalance.kafka.who_may_receive import shut_in_words
from kafka_rebalance.kafka.znode_limits import JUTE_MAXBUFFER_PLACES
from kafka_rebalance.model.amounts_in_words import bytes_in_words, share_in_words
from kafka_rebalance.model.finding import broker_ids, listed, some
from kafka_rebalance.model.settings import BALANCED


class Within(StrEnum):
    """How near to their targets the cheapest lists, and all lists they are compared with, bring the brokers."""

    TOLERANCE = "tolerance"
    ONE_REPLICA = "one_replica"  # no broker is more than one replica beyond, and all together are beyond it by least
    ONE_REPLICA_BUT_BYTES_IN = "one_replica_but_bytes_in"  # so for disks and replicas; bytes in as near as that allows


class NoteKind(Enum):
    """What a note tells. The figures of each kind stand in its text below."""

    # What an offered plan does not reach, and what stays as it is.
    STOPPED_AT_LIMITS = auto()
    TOLERANCE_NOT_REACHED = auto()
    DISKS_STAY_FULL = auto()
    METRIC_IS_OFF = auto()
    RACKS_STAY_BROKEN = auto()
    BROKERS_HOLD_THEIR_MOST = auto()
    REPLICAS_STAY_OUTSIDE_POOLS = auto()
    PINNED_KEEP_FACTOR = auto()
    FACTOR_STAYS_HIGHER = auto()
    LISTS_WITHOUT_ROOM = auto()
    LISTS_WITHOUT_LEADER = auto()
    LEADERS_STAY = auto()
    LEADERS_SPREAD = auto()
    TOPICS_SPREAD = auto()
    IN_LEADER_RACKS = auto()
    LOSSES_SURVIVED = auto()
    LOSS_NOT_YET_SURVIVED = auto()
    SURVIVAL_UNKNOWN = auto()
    MIN_INSYNC_IS_EXACT = auto()
    REPLICAS_ARE_KEPT = auto()
    REPLICAS_ONLY_REORDERED = auto()
    LEFT_WAITING = auto()
    LEADERS_NOT_ELECTED = auto()
    FEW_RECEIVE = auto()
    # What is unknown of the cluster, or odd in it.
    PARTLY_KNOWN = auto()
    RACKLESS_BROKERS = auto()
    RECEIVES_NOTHING = auto()
    CORDONED_KEEPS_LISTS = auto()
    CORDONED_LOG_DIR = auto()
    UNKNOWN_LOG_DIRS = auto()
    UNEVEN_LOG_DIRS = auto()
    UNKNOWN_SIZES = auto()
    # Of a given plan.
    MATCH_ALREADY = auto()
    FACTORS_CHANGE = auto()
    RACKS_NEWLY_BROKEN = auto()
    # Why a given plan is refused, within NOT_OFFERED.
    LIMIT_EXCEEDED = auto()
    KEPT_OUT = auto()
    UNPINNED = auto()
    TOUCHES_BROKERS_OUT = auto()
    FILLS_LEAVING_BROKERS = auto()
    LEAVES_ITS_POOL = auto()
    OTHERS_RECEIVE = auto()
    SHUT_BROKER_RECEIVES = auto()
    NAMES_CORDONED_BROKERS = auto()
    GOES_BACK = auto()
    ELECTS_CLOSED = auto()
    ELECTS_OUT_OF_ISR = auto()
    BELOW_MIN_INSYNC = auto()
    TOO_LARGE_FOR_LOG_DIR = auto()
    DISK_TOO_FULL = auto()
    TOO_MANY_REPLICAS = auto()
    # What is proven of candidate `optimal`.
    PROVEN = auto()
    UNDERCUT = auto()
    BEST_IS_BALANCED = auto()
    BEST_FOUND = auto()
    # Why a candidate is not offered: whole sentences.
    NO_OPTIMUM = auto()
    NOT_SOLVED = auto()
    NOT_OFFERED = auto()
    KAFKA_REFUSES = auto()
    LESS_EVEN = auto()
    TOO_MANY_LEADER_CHANGES = auto()
    ZNODE_TOO_LARGE = auto()
    PLAN_WITHOUT_ROOM = auto()
    ALL_LISTS_WITHOUT_ROOM = auto()
    LOSS_NOT_SURVIVED = auto()
    STRANDED_BY_COUNT = auto()
    STRANDED_BY_RACKS = auto()
    STRANDED_BY_DISKS = auto()
    BEYOND_LIMITS = auto()
    ERROR = auto()
    SIMPLE_BOUND = auto()


@dataclass(frozen=True, slots=True)
class Note:
    """One fact, with the figures that its kind has."""

    kind: NoteKind
    figures: Mapping[str, Any] = field(default_factory=dict)
    pool: str = ""  # of the brokers that it is about; "": all


def note(kind: NoteKind, **figures: Any) -> Note:
    return Note(kind, figures)


def clauses_in_words(notes: Sequence[Note]) -> str:
    """The notes of an offered candidate: one sentence of clauses, and what stands alone."""
    clauses = "; ".join(_text(one) for one in notes if one.kind not in _SENTENCES)
    sentences = [_text(one) for one in notes if one.kind in _SENTENCES]
    return " ".join([*([f"{clauses[0].upper()}{clauses[1:]}."] if clauses else []), *sentences])


def sentences_in_words(notes: Sequence[Note]) -> str:
    """The notes of a candidate that is not offered: why, and what else is to know."""
    texts = ((one.kind, _text(one)) for one in notes)
    return " ".join(text if kind in _SENTENCES else f"{text[0].upper()}{text[1:]}." for kind, text in texts)


def _text(one: Note) -> str:
    template = _TEXTS[one.kind]
    text = template(one.figures) if callable(template) else _WORDS.vformat(template, (), one.figures)
    if not one.pool:
        return text
    return f"{'In' if one.kind in _SENTENCES else 'in'} the pool of {one.pool}: {text}"


class _Words(Formatter):
    """Figures in words: `{size:bytes}`, `{part:share}`, `{ids:brokers}` and others."""

    def format_field(self, value: Any, spec: str) -> str:
        own = _FORMATS.get(spec)
        return own(value) if own else str(super().format_field(value, spec))


_WORDS = _Words()
_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "share": share_in_words,
    "bytes": bytes_in_words,
    "listed": listed,
    "brokers": lambda ids: broker_ids(ids, most=10),
    "all brokers": lambda ids: broker_ids(ids, most=len(ids)),
    "clauses": lambda notes: "; ".join(map(_text, notes)),
    "shut": shut_in_words,
    "part": lambda breach: share_in_words(breach.figures["amount"] / breach.figures["limit"]),
    "limits": lambda limits: ", ".join(f"{name} {most:,} ({used:,} used)" for name, most, used in limits),
    "against": lambda limits: ", ".join(f"{used:,} against {name} {most:,}" for name, used, most in limits),
    "partitions do": lambda count: "1 partition does" if count == 1 else f"{count:,} partitions do",
    "topics": lambda topics: topics_in_words(*topics),
    "factors": lambda kinds: ", ".join(f"{count} from {old} to {new}" for old, new, count in kinds),
}
_MEANS = {  # column: (its meaning, with the field of the connection; the consequence)
    "disk_capacity_bytes": (
        "the size of the disk (disk_bytes in broker_capacities)",
        "disks and replicas are planned as equal shares, and only disks of known size keep their headroom",
    ),
    "disk_used_bytes": ("the used bytes of the disk", "other bytes than those of replicas are unknown"),
    "nic_in_bytes_per_second": (
        "the network's capacity in (nic_in_bytes_per_second in broker_capacities)",
        "bytes in are planned as equal shares",
    ),
    "nic_out_bytes_per_second": (
        "the network's capacity out (nic_out_bytes_per_second in broker_capacities)",
        "leaders and what they send are planned as equal shares",
    ),
}


def _partly_known(figures: Mapping[str, Any]) -> str:
    what, consequence = _MEANS[figures["column"]]
    text = what + " is known for {known} of {staying} brokers only (unknown: {unknown:brokers}): " + consequence
    return _WORDS.vformat(text, (), figures)


def _left_waiting(figures: Mapping[str, Any]) -> str:
    """Partitions that are lost, or topics that are being deleted."""
    ids = figures["brokers"]
    broker, named = broker_ids(ids, most=len(ids)), some(figures["named"], figures["count"])
    if figures["being_deleted"]:
        return f"left out: {named}, being deleted, which waits for {broker}"
    return f"left out: {named}, lost unless {broker} {'returns' if len(ids) == 1 else 'return'}"


def topics_in_words(names: Sequence[str], count: int) -> str:
    """The first of so many topics, and how many more there are."""
    return listed(names) + (f" and {count - len(names)} more topics" if count > len(names) else "")


def _few_receive(figures: Mapping[str, Any]) -> str:
    ids = figures["brokers"]
    who = f"only {broker_ids(ids[:10], most=10)}{' and others' * (len(ids) > 10)}" if ids else "no broker"
    text = (
        " may receive (brokers_in): with all brokers the bound within {tolerance:share} would be {bytes:bytes}, and as "
        "it is, brokers end at best with {lowest:share} to {highest:share} of the {noun} they would have then"
    )
    return who + _WORDS.vformat(text, (), figures)


def _topics_spread(figures: Mapping[str, Any]) -> str:
    text = (
        "{after:,} replicas are more of their topic than their broker's even share (spread_topics), {before:,} before"
    )
    if figures["least"]:
        text += "; racks and replicas that stay leave at least {least:,}"
    if figures["bytes"]:
        text += "; {bytes:bytes} are copied for that alone"
    return _WORDS.vformat(text, (), figures)


def _in_leader_racks(figures: Mapping[str, Any]) -> str:
    text = (
        "{after:,} of {partitions:,} leaders are in rack {racks:listed} (leader_racks), {before:,} before; {changes:,} "
        "leader changes bring them there"
    )
    outside = [
        f"{figures[reason]:,} {words}"
        for reason, words in (
            ("without_replica", "partitions have no replica there"),
            ("kept", "are of topics that the run leaves as they are"),
            ("barred", "have no replica there that may lead"),
            ("others", "stay for evenness, or because of a limit or the job"),
        )
        if figures[reason]
    ]
    return _WORDS.vformat(text, (), figures) + (f". Of the others, {', '.join(outside)}" if outside else "")


_LOADED = {"disk": "disk", "received": "network in", "sent": "network out"}


def _who(lost: int | str) -> str:
    return f"broker {lost}" if isinstance(lost, int) else f"rack {lost}"


def _losses_survived(figures: Mapping[str, Any]) -> str:
    load, who = _LOADED[figures["resource"]], _who(figures["lost"])
    text = (
        f"every loss is survived that could be looked at (survive: {{survive}}): at most {{part:share}} of the {load}"
    )
    text += f" that broker {{broker}} may use, after the loss of {who}"
    if figures["until_batch"]:
        text += "; as now, some are not until batch {until_batch} has ended"
    return _WORDS.vformat(text, (), figures)


def _loss_not_survived(figures: Mapping[str, Any]) -> str:
    load, unit = _LOADED[figures["resource"]], "" if figures["resource"] == "disk" else " a second"
    when = f"while batch {figures['batch']} runs" if figures["batch"] else "after the plan"
    text = f"The loss of {_who(figures['lost'])} {when} would bring the {load} of broker {{broker}} to {{amount:bytes}}"
    text += f"{unit}, which is {{over:bytes}}{unit} more than it may have, {{limit:bytes}}{unit} (survive). "
    more, rack = figures["brokers"], figures["rack"]
    if more:
        noun = "broker" if more == 1 else "brokers"
        where = f" in rack {rack}" if rack is not None else ""
        text += f"{more:,} more {noun} of the usual size would be needed{where}."
    else:
        text += "The brokers have room for that in all, so other lists may survive it."
    return _WORDS.vformat(text, (), {**figures, "over": figures["amount"] - figures["limit"]})


def _optimum(text: str) -> Callable[[Mapping[str, Any]], str]:
    """`{plans}` in the text are those that the lists are compared with; at its end comes what does not count."""

    def in_words(figures: Mapping[str, Any]) -> str:
        plans = f"within {share_in_words(figures['tolerance'])}"
        if figures.get("within") == Within.ONE_REPLICA:
            plans += " or one replica and as near to it"
        elif figures.get("within") == Within.ONE_REPLICA_BUT_BYTES_IN:
            plans += " or one replica and as near to it in disks and replicas, and in bytes in as near as these allow,"
        full = ", without moves to disks beyond disk_headroom," if figures.get("keeps_headroom") else ""
        saves = f"no plan {plans} in all but leaders{full} saves more than a thousandth of these bytes"
        near = "is within one replica of the tolerance" if figures.get("undercut_by") == BALANCED else "is as near"
        certain = "exists" if figures.get("none_exists") else "was found"
        aside = "".join(words for key, words in _DO_NOT_COUNT.items() if figures[key])
        words = {"plans": plans, "saves": saves, "near": near, "certain": certain, "aside": aside}
        return _WORDS.vformat(text, (), {**figures, **words})

    return in_words


_DO_NOT_COUNT = {
    "never_goes_back": "; plans that send replicas back to brokers that they left lately do not count",
    "spreads_leaders": "; plans that spread leaders of topics worse than now do not count",
    "crowds_no_more": "; plans in which topics crowd brokers more than now do not count",
    "spreads_topics": (
        "; plans in which a broker holds more of a topic of spread_topics than its even share and than in balanced do "
        "not count"
    ),
}
_LATER = "; leaders are placed afterwards{aside}"
_STRANDED = "{replicas:,} replicas find no place on the {brokers} brokers that may receive replicas. "
_NO_ROOM = (
    "would fill disks beyond the {allowed:share} of disk_headroom while both copies exist, first that of broker "
    "{broker}. No order of the moves avoids that. Free space there, or add a broker."
)
_TEXTS: Mapping[NoteKind, str | Callable[[Mapping[str, Any]], str]] = {
    NoteKind.STOPPED_AT_LIMITS: "stopped at {limits:limits}",
    NoteKind.TOLERANCE_NOT_REACHED: "within {tolerance:share} is not reached",
    NoteKind.DISKS_STAY_FULL: (
        "{disks} disks stay above relieve_above {limit:share}, the fullest of broker {broker} at {full:.1f} %"
    ),
    NoteKind.METRIC_IS_OFF: "{metric} {lowest:.2f} to {highest:.2f} of the reachable share",
    NoteKind.RACKS_STAY_BROKEN: "{partitions} partitions still break the rack rule",
    NoteKind.BROKERS_HOLD_THEIR_MOST: (
        "broker {brokers:listed} may hold no more replicas (replicas_per_broker {limit})"
    ),
    NoteKind.REPLICAS_STAY_OUTSIDE_POOLS: "{replicas} replicas stay outside the pools of their topics",
    NoteKind.PINNED_KEEP_FACTOR: "{partitions} partitions of pinned_topics keep their replication factor",
    NoteKind.FACTOR_STAYS_HIGHER: (
        "{partitions} partitions keep more than {factor} replicas, because replicas on brokers_out stay"
    ),
    NoteKind.LISTS_WITHOUT_ROOM: (
        "{lists:,} lists stay as they are: while both copies exist, theirs would fill a disk beyond the "
        "{allowed:share} of disk_headroom, and no order of the moves avoids that"
    ),
    NoteKind.LISTS_WITHOUT_LEADER: (
        "{lists:,} lists stay as they are: each replica that could lead instead is out of the ISR or in brokers_out"
    ),
    NoteKind.LEADERS_STAY: (
        "{leaders:,} leaders stay on brokers that are to lead nothing: no other replica may lead there"
    ),
    NoteKind.IN_LEADER_RACKS: _in_leader_racks,
    NoteKind.LEADERS_SPREAD: "{leaders:,} leader changes only spread the leaders of topics (spread_leaders)",
    NoteKind.TOPICS_SPREAD: _topics_spread,
    NoteKind.LOSSES_SURVIVED: _losses_survived,
    NoteKind.LOSS_NOT_YET_SURVIVED: (
        "not every loss is survived yet (survive): the worst one brings a broker to {now:share} of what it may use "
        "now, and to {breach:part} after this plan"
    ),
    NoteKind.SURVIVAL_UNKNOWN: (
        "whether every loss is survived (survive: {survive}) could not be checked, because these are not all known: "
        "{columns:listed}"
    ),
    NoteKind.MIN_INSYNC_IS_EXACT: (
        "{partitions} partitions of {topics:topics} would have exactly as many replicas as min.insync.replicas asks "
        "for: the failure of any one of their brokers stops producers with acks=all"
    ),
    NoteKind.REPLICAS_ARE_KEPT: "{replicas} replicas on brokers that are to be emptied are kept where they are",
    NoteKind.REPLICAS_ONLY_REORDERED: (
        "{replicas} replicas on brokers that are to be emptied stay: this candidate only re-orders lists"
    ),
    NoteKind.LEFT_WAITING: _left_waiting,
    NoteKind.LEADERS_NOT_ELECTED: (
        "{partitions:partitions do} not get the preferred leader: that broker is not in sync now, or brokers_out "
        "forbids it"
    ),
    NoteKind.FEW_RECEIVE: _few_receive,
    NoteKind.PARTLY_KNOWN: _partly_known,
    NoteKind.RACKLESS_BROKERS: (
        "{brokers:brokers} without a rack count as one rack together; set broker.rack to avoid this"
    ),
    NoteKind.RECEIVES_NOTHING: "broker {broker} {why:shut}: it receives nothing",
    NoteKind.CORDONED_KEEPS_LISTS: (
        "broker {broker} {why:shut}: it receives nothing, and {partitions} partitions stay as they are: Kafka refuses "
        "every new list with it"
    ),
    NoteKind.CORDONED_LOG_DIR: "{path} of broker {broker} is cordoned: its room does not count",
    NoteKind.UNKNOWN_LOG_DIRS: (
        "{brokers:brokers} with several log dirs of unknown size: a new replica may go to a full one"
    ),
    NoteKind.UNEVEN_LOG_DIRS: (
        "{brokers:brokers} with uneven log dirs, which Kafka fills by number and not by size: {path} of broker "
        "{broker} has room for {room:,} bytes. The broker gets no larger replica, and at most {most:,} bytes"
    ),
    NoteKind.UNKNOWN_SIZES: "{partitions} partitions of unknown size count as 0 bytes",
    NoteKind.MATCH_ALREADY: "{same} of the plan's {partitions} partitions already match it, and are left out",
    NoteKind.FACTORS_CHANGE: "the replication factor changes for {partitions} partitions: {kinds:factors}",
    NoteKind.RACKS_NEWLY_BROKEN: "{partitions} partitions that keep the rack rule now would break it",
    NoteKind.LIMIT_EXCEEDED: "{limits:against}",
    NoteKind.KEPT_OUT: (
        "{partitions} partitions may not be changed (topics_in, topics_out, internal topics), first {first}"
    ),
    NoteKind.UNPINNED: "{partitions} partitions of {setting} would be moved off theirs, first {first}",
    NoteKind.TOUCHES_BROKERS_OUT: (
        "brokers_out keeps out {brokers:all brokers}, which would gain or lose replicas or leaders"
    ),
    NoteKind.FILLS_LEAVING_BROKERS: "{brokers:all brokers} would receive replicas, but must be emptied",
    NoteKind.LEAVES_ITS_POOL: (
        "{partitions} partitions would get replicas outside the pools of their topics (broker_pools), first {first}: "
        "broker {broker} is not in the pool of {topic}"
    ),
    NoteKind.OTHERS_RECEIVE: "{brokers:all brokers} would receive replicas, but brokers_in allows only others to",
    NoteKind.SHUT_BROKER_RECEIVES: "broker {broker} would receive replicas, but it {why:shut}",
    NoteKind.NAMES_CORDONED_BROKERS: (
        "{lists} new lists name {brokers:all brokers}, which is cordoned (cordoned.log.dirs): Kafka refuses every new "
        "list with it, first {first}"
    ),
    NoteKind.GOES_BACK: (
        "{partitions} partitions would go back to brokers that an earlier plan has lately taken them from, first "
        "{first}"
    ),
    NoteKind.ELECTS_CLOSED: (
        "{partitions} partitions would elect a first replica that is in brokers_out, first {first} (broker {broker}): "
        "put another one first"
    ),
    NoteKind.ELECTS_OUT_OF_ISR: (
        "{partitions} partitions would elect a first replica that is out of the ISR in the snapshot, first {first} "
        "(broker {broker}): put another one first"
    ),
    NoteKind.BELOW_MIN_INSYNC: (
        "{partitions} partitions would have fewer replicas than min.insync.replicas: {topics}, first {first}; "
        "producers with acks=all would fail"
    ),
    NoteKind.TOO_LARGE_FOR_LOG_DIR: (
        "{partition} ({size:,} bytes) is larger than {path} of broker {broker} takes ({room:,})"
    ),
    NoteKind.DISK_TOO_FULL: (
        "the disk of broker {broker} would be {full:share} full, and disk_headroom leaves {allowed:share}"
    ),
    NoteKind.TOO_MANY_REPLICAS: (
        "broker {brokers:listed} would hold more replicas than replicas_per_broker {limit} allows: broker {broker} "
        "would hold {held:,}"
    ),
    NoteKind.PROVEN: _optimum("proven: {saves}" + _LATER),
    NoteKind.UNDERCUT: _optimum("{saves}, but {undercut_by} copies fewer and {near}" + _LATER),
    NoteKind.BEST_IS_BALANCED: _optimum("the best found, but not proven: it is the plan of balanced" + _LATER),
    NoteKind.BEST_FOUND: _optimum(
        "the best found, but not proven: a plan {plans} with {fewer_percent:.1f} % fewer bytes may exist" + _LATER
    ),
    NoteKind.NO_OPTIMUM: _optimum("No plan {plans} or one replica of every share {certain}{aside}."),
    NoteKind.NOT_SOLVED: (
        "The exact optimum exists for the jobs {jobs:listed} without max_leader_changes. It needs highspy, and at most "
        "{variables:,} partitions times brokers."
    ),
    NoteKind.NOT_OFFERED: "The run does not offer {who}, because it is beyond the limits: {why:clauses}.",
    NoteKind.KAFKA_REFUSES: "Kafka's own tool would refuse: {error}",
    NoteKind.LESS_EVEN: (
        "The run does not offer the given plan, because it ends less even than the cluster is: brokers carry "
        "{before.lowest:.2f} to {before.highest:.2f} of their share of {metric} now, and would carry "
        "{after.lowest:.2f} to {after.highest:.2f}. The policy's less_even_plan refuses such plans."
    ),
    NoteKind.TOO_MANY_LEADER_CHANGES: (
        "The plan changes {leaders:,} leaders, but max_leader_changes is {limit:,}. Raise the limit, or ask for less."
    ),
    NoteKind.ZNODE_TOO_LARGE: (
        "The znode of topic {topic} has {now:,} bytes, and {moving:,} while {partition} moves. ZooKeeper accepts "
        "{allowed:,} (jute.maxbuffer). Name the topic in topics_out. " + JUTE_MAXBUFFER_PLACES + "."
    ),
    NoteKind.PLAN_WITHOUT_ROOM: "Copies of the plan " + _NO_ROOM,
    NoteKind.ALL_LISTS_WITHOUT_ROOM: "The copies of {lists:,} lists " + _NO_ROOM,
    NoteKind.LOSS_NOT_SURVIVED: _loss_not_survived,
    NoteKind.STRANDED_BY_COUNT: (
        _STRANDED + "Some have all that replicas_per_broker {limit} allows. Add brokers, or have the policy changed."
    ),
    NoteKind.STRANDED_BY_RACKS: (
        _STRANDED + "The other brokers of their racks already have a replica of the partition, or may receive none."
    ),
    NoteKind.STRANDED_BY_DISKS: (
        _STRANDED + "The rack rule leaves few brokers for them, and these replicas would fill the disks there beyond "
        "{allowed:share} (disk_headroom {headroom:g}). The most room left on one of them is {room:,} bytes. The search "
        "found no way, which does not prove that none exists. Add brokers in those racks, or empty fewer."
    ),
    NoteKind.BEYOND_LIMITS: (
        "The moves that the job requires are beyond the limits: {limits:against}. Raise the limit, or ask for less."
    ),
    NoteKind.ERROR: "{error}",
    NoteKind.SIMPLE_BOUND: "The bound on bytes is the simple one: highspy is not installed.",
}
_KINDS = tuple(NoteKind)
_SENTENCES = frozenset(_KINDS[_KINDS.index(NoteKind.NO_OPTIMUM) :])
