"""Why a partition moves: kinds with figures, and their text in the table of moves.

The planner writes the text. Code that counts moves by their kind gets the words of a kind from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from kafka_rebalance.model.amounts_in_words import bytes_in_words, share_in_words
from kafka_rebalance.model.metrics import Metric

_MANY_TIMES = 99.995  # times its share: of a broker that should have almost nothing
_ROOM = "makes room for what other moves bring"


class ReasonKind(Enum):
    """Why the plan has the move; a move may have several reasons."""

    REPLACES = auto()  # `other` takes the place of `broker`
    EMPTIES = auto()
    ENTERS_POOL = auto()  # `broker` is not in the pool of the `topic`
    FACTOR = auto()  # `factors` are those before and after
    SPREADS_RACKS = auto()
    EVENS = auto()  # `broker` gives to `other` in the `metric` in which they are furthest apart
    TAKES_OFF = auto()  # from a broker that the job should empty
    DEMOTES = auto()  # from a broker that should lead nothing
    SPREADS_TOPIC = auto()  # `broker` leads `amount` partitions beyond its even share of the topic
    MAKES_ROOM = auto()
    MAKES_UP_FOR_LEADERS = auto()
    MAY_NOT_RECEIVE = auto()  # `other` has less than the broker that receives; `shares` are theirs, its own last
    ELECTS = auto()  # `broker` in place of `other`
    GIVEN = auto()
    AS_KAFKA = auto()


@dataclass(frozen=True, slots=True)
class MoveReason:
    """One reason, with the figures that its kind has."""

    kind: ReasonKind
    broker: int = -1
    other: int = -1
    metric: Metric = Metric.DISK
    shares: tuple[float, float] = (0.0, 0.0)  # the loads of `broker` and `other`, over their shares
    amount: float = 0.0  # how much of the metric goes; of SPREADS_TOPIC partitions
    factors: tuple[int, int] = (0, 0)
    topic: str = ""


_TEXTS = {
    ReasonKind.REPLACES: "broker {other} takes the place of broker {broker}",
    ReasonKind.EMPTIES: "empties broker {broker}",
    ReasonKind.ENTERS_POOL: "broker {broker} is not in the pool of {topic}",
    ReasonKind.FACTOR: "replication factor {before} to {after}",
    ReasonKind.SPREADS_RACKS: "spreads the replicas over more racks",
    ReasonKind.EVENS: "broker {broker} has {has} of its share of {noun}, broker {other} {other_has}: {amount}",
    ReasonKind.TAKES_OFF: "takes {noun} off broker {broker}, which is to be emptied",
    ReasonKind.DEMOTES: "takes {noun} off broker {broker}, which is to lead nothing",
    ReasonKind.SPREADS_TOPIC: "broker {broker} leads {count} of the topic's partitions too many",
    ReasonKind.MAKES_ROOM: "makes room on broker {broker} for what other moves bring there",
    ReasonKind.MAKES_UP_FOR_LEADERS: "makes up for leaders that other moves give to broker {broker}",
    ReasonKind.MAY_NOT_RECEIVE: "broker {other} has less of its share of {noun} ({other_has}), but may not receive",
    ReasonKind.ELECTS: "elects the preferred leader, broker {broker}, in place of broker {other}",
    ReasonKind.GIVEN: "given by the requester",
    ReasonKind.AS_KAFKA: "as Kafka's own tool would place it",
}
_EVENS_HAS = _TEXTS[ReasonKind.EVENS].partition("{has}")[2].partition("{other}")[0]

# (words in the text of a kind, the name for all moves of this kind); the first that fits counts
REASON_GROUPS = (
    (_TEXTS[ReasonKind.SPREADS_TOPIC].partition("{count}")[2], "spreads leaders of topics"),
    (_TEXTS[ReasonKind.MAKES_UP_FOR_LEADERS].partition("{broker}")[0], _ROOM),
    (_TEXTS[ReasonKind.MAKES_ROOM].partition("{broker}")[0], _ROOM),
    *((_EVENS_HAS.format(noun=metric.noun), f"evens out {metric.noun}") for metric in Metric),
)


def encode_reasons(reasons: Iterable[MoveReason]) -> str:
    return "; ".join(map(_text, reasons))


def _text(reason: MoveReason) -> str:
    figures = {"broker": reason.broker, "other": reason.other, "noun": reason.metric.noun}
    figures["topic"] = reason.topic
    figures["count"] = round(reason.amount)
    if reason.kind == ReasonKind.FACTOR:
        figures |= {"before": reason.factors[0], "after": reason.factors[1]}
    if reason.kind in (ReasonKind.EVENS, ReasonKind.MAY_NOT_RECEIVE):
        has, other_has = map(multiple_in_words, reason.shares)
        figures |= {"has": has, "other_has": other_has, "amount": _amount(reason)}
    return _TEXTS[reason.kind].format(**figures)


def _amount(reason: MoveReason) -> str:
    if reason.metric.is_count:
        return f"1 {reason.metric.noun[:-1]} goes"
    return f"{bytes_in_words(reason.amount)}{'' if reason.metric == Metric.DISK else ' a second'} go"


def multiple_in_words(multiple: float) -> str:
    """A load over its share."""
    return share_in_words(multiple) if multiple < _MANY_TIMES else "many times"
