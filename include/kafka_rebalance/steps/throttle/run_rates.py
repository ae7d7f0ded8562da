"""The rate of a run's throttle: what was measured when it was planned, and what follows from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.proposals.rates import RATES_FILE, CandidateRates, NetworksKnown, Rates
from kafka_rebalance.documents.storage import read_if_there
from kafka_rebalance.execution.throttle.auto_rate import (
    AUTO,
    BrokerLoad,
    auto_rate,
    network_uses,
    traffic,
)
from kafka_rebalance.execution.throttle.least_rate import (
    LeastRate,
    check_rate,
    least_rate,
)
from kafka_rebalance.model.candidate import Candidate, brokers_touched
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.tables.history_table import HISTORY, planned_with
from kafka_rebalance.planning.tables.parquet_files import PART
from kafka_rebalance.planning.tables.read_problem import read_problem
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.steps.run_folder import RunFolder

NETWORKS_LISTED = 20


class Measured(NamedTuple):
    """Replicas of every partition, and bytes a second written to each and read, as the plan had them.

    Bytes written are the 95th percentile of the ledger's samples, as in planning; None where nothing was measured.
    """

    replicas: Mapping[TopicPartition, tuple[int, ...]]
    written: Mapping[TopicPartition, float] | None
    read: Mapping[TopicPartition, float]


def measured(folder: RunFolder) -> Measured:
    """Out of the snapshot's tables and the history: on a large cluster to be read once."""
    settings = Settings.from_mapping(json_files.read_json(folder, json_files.SETTINGS))
    snapshot = folder / json_files.SNAPSHOT_FOLDER
    problem = read_problem(snapshot, settings)
    history = folder / HISTORY / PART
    found = read_if_there(history)
    if found is not None:
        problem = planned_with(problem, snapshot, found, str(history))
    partitions = _partitions(problem)
    brokers = problem.brokers.tolist()
    replicas = {
        topic_partition: tuple(brokers[index] for index in row if index >= 0)
        for topic_partition, row in zip(partitions, problem.replicas.tolist(), strict=True)
    }
    written = None if problem.bytes_in is None else dict(zip(partitions, problem.bytes_in.tolist(), strict=True))
    read = {} if problem.bytes_out is None else dict(zip(partitions, problem.bytes_out.tolist(), strict=True))
    return Measured(replicas, written, read)


def _partitions(problem: Problem) -> list[TopicPartition]:
    topics = problem.topics
    return [
        TopicPartition(topics[topic], partition)
        for topic, partition in zip(problem.topic.tolist(), problem.partition.tolist(), strict=True)
    ]


def check_run_rate(folder: RunFolder, candidate: Candidate, bytes_per_second: int, policy: Policy | None) -> None:
    """Raises ThrottleRateError for a rate outside the policy's range, or at which a copy could never end.

    By what was found when the plan was made: measuring again would hold up the first write of a large cluster.
    """
    found = read_rates(folder).get(candidate.name)
    if found is None:
        least = least_rate(candidate.moves, measured(folder).written or {})
    else:
        least = LeastRate(found.least_bytes_per_second, found.reason)
    check_rate(bytes_per_second, least, policy)


def write_rates(
    folder: RunFolder,
    offered: Sequence[str],
    connection: ClusterConnection,
    policy: Policy | None,
    found_by_plan: Measured,
) -> None:
    """rates.json: of each candidate the least rate, and where `auto` was asked for, that rate; with the reasons."""
    replicas, written, read = found_by_plan
    auto = json_files.read_json(folder, json_files.SNAPSHOT).get("throttle") == AUTO
    now: Mapping[int, BrokerLoad] | None = None if written is None else traffic(replicas, written, read)
    found: dict[str, CandidateRates] = {}
    for name in offered:
        moves = read_candidate(folder, name).moves
        least = least_rate(moves, written or {})
        touched = sorted(brokers_touched(moves))
        network = None if now is None else _network(touched, connection, now)
        chosen = auto_rate(touched, connection.capacities, now, least, policy) if auto and policy is not None else ()
        found[name] = CandidateRates(least.bytes_per_second, least.reason, network, *chosen)
    RATES_FILE.write(folder, Rates(found))


def _network(brokers: Sequence[int], connection: ClusterConnection, now: Mapping[int, BrokerLoad]) -> NetworksKnown:
    """What the networks of these brokers carry without the plan: those with least left, and of how many it is known."""
    uses = network_uses(brokers, connection.capacities, now)
    tightest = (
        replace(use, used_bytes_per_second=round(use.used_bytes_per_second, 1)) for use in uses[:NETWORKS_LISTED]
    )
    return NetworksKnown(len(brokers), len(uses), tuple(tightest))


def read_rates(folder: RunFolder) -> Mapping[str, CandidateRates]:
    """{candidate: what `write_rates` found}; nothing where the plan was made before there was such a file."""
    found = RATES_FILE.read_if_there(folder)
    return found.candidates if found else {}


def check_network_known(connection: ClusterConnection, brokers: Sequence[int]) -> None:
    """Raises ThrottleRateError where `auto` could not be told for a broker; before a plan is made for it."""
    auto_rate(brokers, connection.capacities, None, LeastRate(1, ""), Policy(approvers=()))
