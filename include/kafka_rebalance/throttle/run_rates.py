"""The rates that a run's throttle may have, from what was measured before the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE, read_settings
from kafka_rebalance.documents.storage import read_if_there
from kafka_rebalance.model.candidate import Candidate, brokers_touched
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.planning.tables.history import HISTORY, planned_with
from kafka_rebalance.planning.tables.parquet_files import PART
from kafka_rebalance.planning.tables.read_problem import read_problem
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.throttle.rates import (
    AUTO,
    RATES_FILE,
    BrokerLoad,
    CandidateRates,
    LeastRate,
    NetworksKnown,
    Rates,
    auto_rate,
    check_rate,
    least_rate,
    network_uses,
    traffic,
)

NETWORKS_LISTED = 20


class Measured(NamedTuple):
    """The replicas of every partition, and the bytes per second written to it and read from it, as the plan had them.

    Written bytes are the 95th percentile, of the ledger's samples or by a metrics server; None: not measured. They are
    so with `even_at_worst_hour` too: a copy must keep up with its own partition in every hour.
    """

    replicas: Mapping[TopicPartition, tuple[int, ...]]
    written: Mapping[TopicPartition, float] | None
    read: Mapping[TopicPartition, float]


def measured(folder: RunFolder) -> Measured:
    """Read from the snapshot's tables and the history: slow on a large cluster, so read it once."""
    settings = read_settings(folder)
    snapshot, history = folder / json_files.SNAPSHOT_FOLDER, folder / HISTORY / PART
    problem = read_problem(snapshot, replace(settings, even_at_worst_hour=False))
    problem = planned_with(problem, snapshot, read_if_there(history), str(history))
    topics = (problem.topics[topic] for topic in problem.topic.tolist())
    partitions = list(map(TopicPartition, topics, problem.partition.tolist()))
    brokers = problem.brokers.tolist()
    replicas = [tuple(brokers[index] for index in row if index >= 0) for row in problem.replicas.tolist()]
    rates = problem.rates
    written = dict(zip(partitions, rates.bytes_in.tolist(), strict=True)) if rates.knows_in else None
    read = dict(zip(partitions, rates.bytes_out.tolist(), strict=True)) if rates.knows_out else {}
    return Measured(dict(zip(partitions, replicas, strict=True)), written, read)


def check_run_rate(folder: RunFolder, candidate: Candidate, bytes_per_second: int, policy: Policy | None) -> None:
    """Raises ThrottleRateError for a rate outside the policy's range, or at which a copy could never end.

    It uses rates.json, because a new measurement would delay the first write on a large cluster.
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
    """rates.json: each candidate's least rate, and the automatic rate if `auto` was asked for, with the reasons."""
    replicas, written, read = found_by_plan
    auto = SNAPSHOT_FILE.read(folder).throttle == AUTO
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
    uses = network_uses(brokers, connection.capacities, now)
    tightest = [
        replace(use, used_bytes_per_second=round(use.used_bytes_per_second, 1)) for use in uses[:NETWORKS_LISTED]
    ]
    return NetworksKnown(len(brokers), len(uses), tuple(tightest))


def read_rates(folder: RunFolder) -> Mapping[str, CandidateRates]:
    """What `write_rates` found, by candidate; empty for a plan of a version without this file."""
    found = RATES_FILE.read_if_there(folder)
    return found.candidates if found else {}


def check_network_known(connection: ClusterConnection, brokers: Sequence[int]) -> None:
    """For the moment before the plan: raises ThrottleRateError if no automatic rate can be given for a broker."""
    auto_rate(brokers, connection.capacities, None, LeastRate(1, ""), Policy(approvers=()))
