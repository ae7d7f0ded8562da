"""Segment settings of an approved plan's topics on their brokers, in the snapshot and now."""

from __future__ import annotations

from collections.abc import Collection

from kafka_rebalance.admin.configs import read_effective_configs
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.snapshot import ClusterConfigs
from kafka_rebalance.errors import StaleProposalError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.run.approved_plan import ApprovedPlan
from kafka_rebalance.run.check_result import Check
from kafka_rebalance.segments.settings_audit import check_segments, copies_stopped
from kafka_rebalance.segments.snapshot_audit import read_configs_of


def check_segment_settings(
    cluster: OpenCluster, connection: ClusterConnection, plan: ApprovedPlan
) -> tuple[Check, ...]:
    """The verification's results about segment settings. Raises ReadError if a broker does not answer."""
    before = read_configs_of(plan.folder)
    holders = {broker for move in plan.candidate.moves for broker in move.after}
    return check_segments(plan.candidate.moves, before, _read_now(cluster, connection, plan, holders))


def check_copies_safe(cluster: OpenCluster, connection: ClusterConnection, plan: ApprovedPlan) -> None:
    """Raises StaleProposalError if a copy could not follow with today's settings."""
    receiving = {broker for move in plan.candidate.moves for broker in move.added}
    if not receiving:
        return
    stops = copies_stopped(plan.candidate.moves, _read_now(cluster, connection, plan, receiving))
    if stops:
        listed = "; ".join(map(str, stops[:3])) + (f"; and {len(stops) - 3} more" if stops[3:] else "")
        raise StaleProposalError(
            f"Settings have changed since the approval, and copies would stop: {listed} Correct "
            "the settings and start a new Dag run."
        )


def _read_now(
    cluster: OpenCluster, connection: ClusterConnection, plan: ApprovedPlan, brokers: Collection[int]
) -> ClusterConfigs:
    return ClusterConfigs(
        topics=cluster.read_topic_configs(plan.topics),
        brokers=read_effective_configs(connection.kafka, sorted(brokers)),
    )
