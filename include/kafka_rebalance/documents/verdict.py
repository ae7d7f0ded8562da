"""verdict.json: what a nightly check has found, and whether it proposes a rebalance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_rebalance.documents.json_files import VERDICT, JsonFile, Time, omitted
from kafka_rebalance.documents.progress import OftenSlow
from kafka_rebalance.documents.segments import ClusterSegments
from kafka_rebalance.documents.snapshot import ControllerFound, Disks


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How far a cluster is from balance. `skew` is how far the worst broker is off its share, by resource."""

    imbalance: float  # the skew of `resource`, the worst
    resource: str | None = None
    skew: Mapping[str, float] = field(default_factory=dict)
    rack_violations: int
    outside_pools: int = 0  # replicas outside the pools of their topics
    limit: float
    past_limit: bool = False  # a rebalance is needed
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Measured):
    """A field with a default may be missing in a file of an earlier version; None there is unknown."""

    connection_id: str = ""
    cluster_id: str = ""
    brokers_away: tuple[int, ...] = ()
    brokers_unread: tuple[int, ...] = ()
    is_whole: bool = True  # False: the check left out brokers or partitions, and the text names them
    propose: bool = False
    not_proposed: str | None = None  # why nothing is proposed for a cluster past its limit
    has_policy: bool = True
    has_rights: bool = True  # the connection may write what a rebalance needs
    segment_errors: int | None = None
    segment_warnings: int | None = None
    conf: Mapping[str, Any] | None = omitted()  # of the proposed run
    proposal: str | None = omitted()  # its run id
    controller: ControllerFound | None = None
    segments: ClusterSegments | None = None  # the first findings
    observed_at: Time
    disks: Disks | None = None
    slow_brokers: tuple[OftenSlow, ...] = omitted(())


VERDICT_FILE = JsonFile(VERDICT, Verdict)
