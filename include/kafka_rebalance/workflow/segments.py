"""Segment-roll settings of the moved topics on their brokers, at the snapshot and now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.brokers.configs import read_broker_configs
from kafka_rebalance.kafka.segment_roll import EffectiveRollSettings, effective_roll_settings, replica_fetch_max_bytes
from kafka_rebalance.model import artifacts
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.proposal import brokers_touched
from kafka_rebalance.verification.checks import Check
from kafka_rebalance.verification.segments import check_segments
from kafka_rebalance.workflow.approved import ApprovedPlan
from kafka_rebalance.zookeeper.reader import read_topic_configs

BrokerConfigs = Mapping[int, Mapping[str, tuple[str | None, str]]]


def check_segment_settings(client: KazooClient, connection: ClusterConnection, plan: ApprovedPlan) -> tuple[Check, ...]:
    """The verification's results about segment-roll settings; ReadError where a broker cannot be asked."""
    snapshot = artifacts.read_json(plan.folder / artifacts.SNAPSHOT_FOLDER, "configs.json")
    holders = {broker for move in plan.candidate.moves for broker in move.after}
    now = {
        broker: {name: (value.value, value.source) for name, value in values.items()}
        for broker, values in read_broker_configs(connection.kafka, sorted(holders)).items()
    }
    touched = brokers_touched(plan.candidate.moves)
    then = {
        int(broker): {name: (value, source) for name, (value, source) in values.items()}
        for broker, values in snapshot["brokers"].items()
        if int(broker) in touched
    }
    return check_segments(
        plan.candidate.moves,
        _effective(plan, snapshot["topics"], then),
        _effective(plan, read_topic_configs(client, plan.topics), now),
        replica_fetch_max_bytes={broker: replica_fetch_max_bytes(values) for broker, values in now.items()},
    )


def _effective(
    plan: ApprovedPlan, topics: Mapping[str, Mapping[str, Any]], brokers: BrokerConfigs
) -> dict[tuple[str, int], EffectiveRollSettings]:
    return {
        (topic, broker): effective_roll_settings(topics.get(topic, {}), values)
        for topic in plan.topics
        for broker, values in brokers.items()
    }
