"""Clusters and settings drawn by Hypothesis: small, and as odd as real ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kafka_rebalance.model.settings import LEADERS_ALONE
from kafka_rebalance.planning.tables.read_problem import PROPOSED

Rows = list[dict[str, Any]]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Rows, Rows]:
    """(broker rows, partition rows): 1 to 8 brokers, with racks or without, any replication, any sizes."""
    least = draw(st.sampled_from([1, 4, 5, 6]))
    ids = draw(st.lists(st.integers(0, 30), min_size=least, max_size=8, unique=True))
    holders = ids[: max(1, len(ids) - draw(st.integers(0, 2)))]  # the others are empty
    factor = draw(st.integers(1, min(4, len(holders))))
    racks = draw(st.sampled_from(["none", "all", "all", "all", "some"]))
    names = draw(st.sampled_from([("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", "c", "d")]))
    capacity = draw(st.sampled_from([None, None, "even", "uneven", "some"]))
    rates = draw(st.booleans())
    brokers = []
    for number, broker in enumerate(sorted(ids)):
        row: dict[str, Any] = {"broker": broker}
        if racks == "all" or (racks == "some" and number % 2):
            row["rack"] = names[number % len(names)]
        if capacity is not None and (capacity != "some" or draw(st.booleans())):
            row["disk_capacity_bytes"] = (
                10**9 * (1 + (number % 3 if capacity == "uneven" else 0)) // (300 if capacity == "some" else 1)
            )
        row["state"] = draw(st.sampled_from([None, None, None, "keep", "new", "new", "drain"]))
        if row["state"] == "drain" and draw(st.booleans()):
            row["rack"] = None  # dead: its rack went with its registration
        if draw(st.sampled_from([False, False, False, True])):
            free = st.one_of(st.none(), st.integers(0, 2 * 10**6))
            row["log_dirs"] = [
                {"path": f"/{number}", "total_bytes": 2 * 10**6, "usable_bytes": draw(free)}
                for number in range(draw(st.integers(0, 3)))
            ]
        brokers.append(row)
    partitions: Rows = []
    for topic in draw(st.lists(st.sampled_from(["orders", "payments", "__internal"]), min_size=1, unique=True)):
        for partition in range(draw(st.integers(1, 10))):
            replicas = draw(st.lists(st.sampled_from(holders), min_size=1, max_size=factor, unique=True))
            row = {"topic": topic, "partition": partition, "replicas": replicas}
            row["size_bytes"] = draw(st.one_of(st.none(), st.integers(0, 10**6), st.just(0)))
            if rates:
                row["bytes_in_per_second"] = draw(st.one_of(st.none(), st.floats(0, 1e6)))
                row["bytes_out_per_second"] = draw(st.floats(0, 1e6))
            row["isr"] = draw(st.sampled_from([None, [], replicas, replicas[1:], [*replicas[:1], 99]]))
            in_sync = [broker for broker in replicas if not row["isr"] or broker in row["isr"]]  # as a leader always is
            row["leader"] = draw(st.sampled_from([None, -1, 99, *in_sync[:1] * 4, *in_sync]))
            row["excluded"] = draw(st.sampled_from([None, False, False, False, True]))
            row["left_brokers"] = draw(
                st.one_of(st.none(), st.none(), st.lists(st.sampled_from([*ids, 99]), max_size=2, unique=True))
            )
            partitions.append(row)
    if draw(st.sampled_from([False, False, True])):  # what was proposed last, however odd
        odd = st.lists(st.sampled_from([*ids, 99]), max_size=factor)
        for row in partitions:
            lists = st.one_of(st.none(), odd, st.permutations(row["replicas"]))
            row |= {column: draw(lists) for column in PROPOSED.values()}
    return brokers, partitions


@st.composite
def _receivers(draw: st.DrawFn, others: list[int], replacements: list[int]) -> dict[str, Any]:
    """Which brokers alone receive; mostly no such limit. `others` may be named, and `replacements` must be."""
    limit = draw(st.sampled_from([None, None, "brokers_in", "new"]))
    if limit == "new":
        return {"brokers_in": "new"}
    if limit is None or not (others or replacements):
        return {}
    some = draw(st.lists(st.sampled_from(others), min_size=0 if replacements else 1, unique=True)) if others else []
    return {limit: [*some, *replacements]}


@st.composite
def _pools(draw: st.DrawFn, ids: list[int]) -> list[dict[str, Any]]:
    """Mostly none; else one or two pools, and perhaps no broker for the other topics."""
    number: int = draw(st.sampled_from([0, 0, 1, 2]))
    in_any_order = draw(st.permutations(ids))
    half = max(1, len(ids) // 2)
    pools = [{"topics": ["orders"], "brokers": in_any_order[:half]}]
    if in_any_order[half:]:
        pools.append({"topics": ["pay*", "__*"], "brokers": in_any_order[half:]})
    return pools[:number]


@st.composite
def settings_for(draw: st.DrawFn, cluster: tuple[Rows, Rows], job: str) -> dict[str, Any]:
    """Settings of this job that name brokers of this cluster; not all of them can be satisfied."""
    ids = [row["broker"] for row in cluster[0]]
    held = {broker for row in cluster[1] for broker in row["replicas"]}
    settings: dict[str, Any] = {
        "job": job,
        "tolerance": draw(st.sampled_from([0.02, 0.1, 0.3])),
        "seed": draw(st.integers(0, 3)),
    }
    if job == "drain":
        settings["drain"] = draw(st.lists(st.sampled_from(ids), min_size=1, max_size=2, unique=True))
    if job == "replace":
        old = draw(st.sampled_from(sorted(held)))
        others = [broker for broker in ids if broker != old]
        settings["replace"] = {str(old): draw(st.sampled_from([b for b in others if b not in held] or others or [99]))}
    if job == "relieve" and draw(st.booleans()):
        settings["relieve_above"] = draw(st.sampled_from([0.0001, 0.001, 0.5]))
    if job == "replication_factor":
        settings["replication_factor"] = draw(st.integers(1, 4))
    named = {*settings.get("drain", ()), *map(int, settings.get("replace", ())), *settings.get("replace", {}).values()}
    others = [broker for broker in ids if broker not in named]
    leaves_some_out: bool = draw(st.booleans())
    if others and leaves_some_out:
        settings["brokers_out"] = draw(st.lists(st.sampled_from(others), max_size=2, unique=True))
    if job not in LEADERS_ALONE:
        open_brokers = [broker for broker in others if broker not in settings.get("brokers_out", ())]
        settings |= draw(_receivers(open_brokers, list(settings.get("replace", {}).values())))
    limit = draw(st.sampled_from([None, None, None, "max_bytes", "max_leader_changes"]))
    if limit is not None:
        settings[limit] = draw(st.integers(0, 10**6 if limit == "max_bytes" else 6))
    settings["replicas_per_broker"] = draw(st.one_of(st.none(), st.none(), st.integers(1, 20)))
    settings["topics_out"] = draw(st.sampled_from([[], ["__*"]]))
    settings["pinned_topics"] = draw(st.sampled_from([[], [], ["pay*"]]))
    settings["copies_within_racks"] = draw(st.booleans())
    settings["rackless_brokers"] = draw(st.sampled_from(["refuse", "one_rack", "one_rack"]))
    settings["more_replicas_than_racks"] = draw(st.sampled_from([False, True]))
    settings["rack_pinned_topics"] = draw(st.sampled_from([[], [], ["orders"], ["*"]]))
    racks = sorted({row["rack"] for row in cluster[0] if row.get("rack")})
    settings["leader_racks"] = draw(st.sampled_from([[], [], [], racks[:1], racks[1:]]))
    settings["spread_topics"] = draw(st.sampled_from([[], [], ["orders"], ["*"]]))
    settings["survive"] = draw(st.sampled_from([None, None, None, "broker", "rack"]))
    settings["broker_pools"] = draw(_pools(ids))
    settings["copies_per_broker"] = draw(st.integers(0, 5))
    settings["partitions_per_batch"] = draw(st.integers(1, 100))
    settings["leader_changes_per_batch"] = draw(st.integers(1, 100))
    return settings
