"""What the page says of money, of brokers to buy, and of replicas outside their pool."""

from __future__ import annotations

import dataclasses
from typing import Any

from kafka_rebalance.pages.approver_facts import brief
from kafka_rebalance.pages.page import render_file
from kafka_rebalance.pages.run_report import RunReport
from support.documents import report_samples as samples
from support.documents.built_report import planned


def report(snapshot: dict[str, Any] | None = None, **outlook: Any) -> RunReport:
    plan = samples.proposals(outlook=samples.outlook(**outlook))
    return planned(snapshot=snapshot or samples.snapshot(), proposals=plan, rates=samples.rates())


def test_it_is_said_how_many_brokers_the_growth_asks_for() -> None:
    needed = {"capacity_bytes": 4 * 1024 * samples.GIB, "share": 0.9, "days": [30, 90, 180], "brokers": [0, 2, 1200]}
    assert brief(report(further_brokers=needed)).otherwise[1] == (
        "To keep evenly used disks below 90 %, the cluster needs further brokers of 4.00 TiB: "
        "none for 30 days, 2 for 90 days, 1,200 for 180 days."
    )
    enough = brief(report(further_brokers=needed | {"brokers": [0, 0, 0]})).otherwise
    assert not any("further brokers" in words for words in enough)


def test_with_pools_it_is_said_for_each_pool_that_needs_some() -> None:
    needed = {"capacity_bytes": 4 * 1024 * samples.GIB, "share": 0.9, "days": [30, 90, 180], "brokers": [0, 1, 2]}
    enough = needed | {"brokers": [0, 0, 0], "pool": "audit"}
    said = brief(report(further_brokers_of_pools=[needed | {"pool": "paid"}, enough])).otherwise
    assert [words for words in said if "further brokers" in words] == [
        "To keep evenly used disks below 90 %, the pool of paid needs further brokers of 4.00 TiB: none for 30 days, "
        "1 for 90 days, 2 for 180 days."
    ]


def test_replicas_outside_their_pool_come_first_with_the_brokers_that_hold_them() -> None:
    found = brief(report(strays={"replicas": 12, "brokers": [3, 5]})).why
    assert found[0] == "12 replicas lie outside the pool of their topic, on broker 3, 5."
    many = brief(report(strays={"replicas": 1, "brokers": [*range(12)]})).why
    assert (
        many[0] == "1 replica lies outside the pool of its topic, on broker 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 others."
    )
    assert not any("pool" in words for words in brief(report()).why)


def test_each_candidate_has_the_price_of_its_copies_between_racks_if_the_policy_names_one() -> None:
    priced = dataclasses.replace(samples.policy(), price_per_gb_between_racks=0.02)
    found = report(samples.snapshot(policy=priced.to_mapping(), policy_digest=priced.digest))
    one = max(found.candidates, key=lambda candidate: candidate.cross_rack_bytes or 0)
    assert one.cross_rack_bytes
    assert f"costs {one.cross_rack_bytes / 10**9 * 0.02:,.2f}" in render_file(found)
    assert found.price_between_racks(dataclasses.replace(one, cross_rack_bytes=None)) is None
    assert report().price_between_racks(one) is None


def test_what_goes_between_racks_in_a_second_is_told_before_and_after_with_its_price_of_a_month() -> None:
    priced = dataclasses.replace(samples.policy(), price_per_gb_between_racks=0.02)
    taken = samples.snapshot(policy=priced.to_mapping(), policy_digest=priced.digest)
    before = {"replication": 2_000_000, "producers": 1_000_000, "consumers": 500_000, "nearest_consumers": 0}
    racks = {"copied_by_chance": 7_000, "leaders_copied": 3, "before": before}
    racks["after"] = before | {"replication": 1_000_000}
    plan = samples.proposals_of(between_racks=racks)
    found = planned(snapshot=taken, proposals=plan, rates=samples.rates())
    one = next(candidate for candidate in found.candidates if candidate.between_racks)
    assert found.monthly_prices_between_racks(one) == ("181.44", "129.60")
    page = " ".join(render_file(found).split())
    assert 'replication <span class="was">1.91 MiB/s</span> → 977 KiB/s; producers 977 KiB/s;' in page
    assert "by chance about 6.84 KiB; 3 leaders move themselves" in page
    assert '<span class="was">181.44</span> → 129.60 in 30 days' in page
    unpriced = planned(proposals=plan, rates=samples.rates())
    assert unpriced.monthly_prices_between_racks(one) is None
    unknown = dataclasses.replace(one, between_racks=dataclasses.replace(one.between_racks, before=None))
    assert found.monthly_prices_between_racks(unknown) is None
