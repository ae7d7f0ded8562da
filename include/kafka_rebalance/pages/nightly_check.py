"""What the newest nightly check found, from its verdict.json. None is unknown: an older version made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kafka_rebalance.documents.controller import Queue
from kafka_rebalance.documents.disks import Disks, FullestLogDir
from kafka_rebalance.documents.json_files import Time, decode
from kafka_rebalance.documents.proposals import FullestDisk
from kafka_rebalance.model.metrics import noun_of
from kafka_rebalance.pages.units import format_count, format_duration, format_share

FINDINGS_SHOWN = 5
_LONG_DAYS = 365.0


@dataclass(frozen=True, slots=True)
class NightlyCheck:
    at: datetime
    text: str
    past_limit: bool
    segment_errors: int
    segment_warnings: int
    findings: tuple[str, ...]
    controller: str
    is_whole: bool = True  # False: the check left out brokers or partitions, and the text names them
    imbalance: float = 0.0  # how far the worst broker is off its share of `resource`
    limit: float = 0.0
    resource: str | None = None
    rack_violations: int = 0
    proposes_nothing: bool = False  # past its limit, and the text says why the check proposes no rebalance
    disks: Disks | None = None
    has_policy: bool = True
    has_rights: bool = True  # the connection may write what a rebalance needs
    outside_pools: int = 0  # replicas outside the pools of their topics

    @property
    def read_only_words(self) -> str:
        """Why runs of this cluster end with a report, and what changes that; empty if they may write."""
        if not self.has_policy:
            return "no policy file says who may approve. Runs plan and report. To change that, add a policy file"
        if not self.has_rights:
            return "the connection lacks rights. Runs plan and report, and name the rights that are missing"
        return ""

    @property
    def sentence(self) -> str:
        return f"{self.text[:1].upper()}{self.text[1:]}."

    @property
    def skew_words(self) -> str:
        """`Bytes on disk 31 % off their share, limit 20 %`."""
        what = noun_of(self.resource or "loads").capitalize()
        return f"{what} {format_share(self.imbalance)} off their share, limit {format_share(self.limit)}"

    @property
    def fullest_words(self) -> str:
        """`91 %, broker 4`, or `97 %, /data2 of broker 4`."""
        worst = self.disks.worst if self.disks is not None else None
        return "unknown" if worst is None else f"{format_share(worst.used_share)}, {where(worst)}"

    @property
    def until_full_words(self) -> str:
        """`broker 4 is full in 12 d`; empty if no disk is known."""
        worst = self.disks.worst if self.disks is not None else None
        if self.disks is None or worst is None:
            return ""
        first = self.disks.first_full
        if first is None:
            return "no disk fills up" if self.disks.growth_is_known else "growth unknown"
        if first.days > _LONG_DAYS:
            return "not full within a year"
        who = "" if first.broker == worst.broker else f"broker {first.broker} is "
        return f"{who}full in {days_in_words(first.days)}"


def where(full: FullestDisk | FullestLogDir) -> str:
    return f"{full.path} of broker {full.broker}" if isinstance(full, FullestLogDir) else f"broker {full.broker}"


def days_in_words(days: float) -> str:
    """`12 d`; below two days with hours: `1 d 4 h`."""
    return f"{format_count(days)} d" if days >= 2 else format_duration(days * 86_400)


@dataclass(frozen=True, slots=True)
class _Finding:
    severity: str
    text: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class _Segments:
    findings: tuple[_Finding, ...]


@dataclass(frozen=True, slots=True)
class _Controller:
    broker: int
    host: str | None = None
    since: Time | None = None
    queued: Mapping[str, Queue] = field(default_factory=dict)

    def __str__(self) -> str:
        waiting = sum(queue.count for queue in self.queued.values())
        return (
            f"broker {self.broker}"
            + (f" ({self.host})" if self.host else "")
            + (f", {waiting} requests queued" if waiting else "")
            + (f", since {self.since:%Y-%m-%d %H:%M} UTC" if self.since else "")
        )


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The part of verdict.json that the page shows."""

    observed_at: Time
    text: str
    imbalance: float
    limit: float
    rack_violations: int
    resource: str | None = None
    segment_errors: int | None = None
    segment_warnings: int | None = None
    segments: _Segments | None = None
    controller: _Controller | None = None
    is_whole: bool = True
    not_proposed: str | None = None
    disks: Disks | None = None
    has_policy: bool = True
    has_rights: bool = True
    outside_pools: int = 0


def read_check(verdict: Mapping[str, object]) -> NightlyCheck:
    """From verdict.json. Raises ArtifactError, naming the missing or wrong key."""
    found = decode(_Verdict, verdict, "verdict.json")
    findings = found.segments.findings if found.segments is not None else ()
    return NightlyCheck(
        at=found.observed_at,
        text=found.text,
        past_limit=found.imbalance > found.limit or found.rack_violations > 0 or found.outside_pools > 0,
        segment_errors=found.segment_errors or 0,
        segment_warnings=found.segment_warnings or 0,
        findings=tuple(f"{one.severity.capitalize()}: {one.words or one.text}" for one in findings[:FINDINGS_SHOWN]),
        controller=str(found.controller or "none was elected"),
        is_whole=found.is_whole,
        imbalance=found.imbalance,
        limit=found.limit,
        resource=found.resource,
        rack_violations=found.rack_violations,
        proposes_nothing=found.not_proposed is not None,
        disks=found.disks,
        has_policy=found.has_policy,
        has_rights=found.has_rights,
        outside_pools=found.outside_pools,
    )
