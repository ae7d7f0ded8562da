"""snapshot.json: a run's cluster, who asked for the run and why, and what the snapshot found beside its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_rebalance.documents.json_files import SNAPSHOT, JsonFile, Time
from kafka_rebalance.model.finding import Finding


@dataclass(frozen=True, slots=True)
class AskedWindow:
    not_before: Time | None = None
    finish_by: Time | None = None
    recurring: tuple[str, ...] = ()  # the policy's, if the run takes them


@dataclass(frozen=True, slots=True)
class AutomaticElections:
    """`brokers` elect preferred leaders by themselves while they are controller, every `check_seconds`, if known."""

    brokers: tuple[int, ...]
    check_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class KeptAway:
    """So many replicas do not go back to the brokers from which plans of so many days have taken them."""

    replicas: int
    days: int


@dataclass(frozen=True, slots=True)
class LastProposal:
    """The cluster's proposal before this one, of the same job, whose moves are not all made yet.

    `unread` says why its lists could not be read, and so do not count.
    """

    run_id: str | None  # None: the ledger cannot be read
    observed_at: Time | None  # its snapshot
    unread: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """Older versions lack the keys that have a default."""

    connection_id: str
    cluster_id: str
    dag_id: str
    run_id: str
    observed_at: Time
    brokers: int
    partitions: int
    cluster_bytes: int
    settings: Mapping[str, Any]
    policy: Mapping[str, Any] | None = None  # None: the cluster is read-only
    missing_rights: tuple[Finding, ...] = ()  # this connection could not execute a plan
    requested_by: str | None = None
    reason: str = ""
    controller: Mapping[str, Any] | None = None  # see `documents.controller`
    window: AskedWindow | None = None
    automatic_elections: AutomaticElections | None = None
    kept_away: KeptAway | None = None  # None: every broker that may receive may get every replica
    last_proposal: LastProposal | None = None  # None: there is none
    other_policies: tuple[str, ...] = ()  # connections to the same cluster with other policies, whose limits count too


SNAPSHOT_FILE = JsonFile(SNAPSHOT, SnapshotTaken)
