"""The clusters that the planner is measured on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench.clusters import SCENARIOS, SIZES, Size, make_cluster, write_cluster
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import prepare

SMALL = Size(brokers=12, racks=4, partitions=800, partitions_per_topic=20, factor_two=0.3)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_same_seed_gives_the_same_cluster_and_another_seed_another(scenario: str) -> None:
    once, again, other = (make_cluster(SMALL, scenario, seed) for seed in (1, 1, 2))
    assert (once.brokers, once.partitions) == (again.brokers, again.partitions)
    assert once.partitions != other.partitions


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_list_names_two_or_three_brokers_that_are_there_and_none_twice(scenario: str) -> None:
    made = make_cluster(SMALL, scenario, 3)
    there = {row["broker"] for row in made.brokers if row["state"] != "new"}
    lists = [row["replicas"] for row in made.partitions]
    assert len(lists) == 800
    assert {len(replicas) for replicas in lists} == {2, 3}
    assert all(len(set(replicas)) == len(replicas) and set(replicas) <= there for replicas in lists)


def test_few_lists_break_the_rack_rule_and_racks_are_as_large_as_each_other() -> None:
    made = make_cluster(SMALL, "skew", 4)
    rack = {row["broker"]: row["rack"] for row in made.brokers}
    broken = sum(len({rack[broker] for broker in row["replicas"]}) < len(row["replicas"]) for row in made.partitions)
    assert 0 < broken < 0.02 * len(made.partitions)
    assert Counter(rack.values()) == {f"rack-{number}": 3 for number in range(4)}


def test_what_is_written_is_a_snapshot_that_the_planner_takes(tmp_path: Path) -> None:
    write_cluster(tmp_path / "s", "S", "drain", 1)
    problem = prepare(tmp_path / "s", Settings())
    assert (len(problem.brokers), len(problem.partition)) == (SIZES["S"].brokers, SIZES["S"].partitions)
    assert problem.leaving.sum() == 1
