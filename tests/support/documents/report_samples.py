"""A run's documents as the tasks write them, with numbers that fit together: for the report's and the web's tests."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

from kafka_rebalance.documents.json_files import FORMAT_VERSION
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings

HOSTILE = "<script>alert(1)</script>|`[x](https://evil.example)www.evil.example{{ 7*7 }}\n# h"
DIGESTS = {name: format(at, "x") * 64 for at, name in enumerate(("leaders_only", "light", "balanced"), start=10)}
MIB, GIB = 1024**2, 1024**3
NETWORK = dict.fromkeys(("nic_in_bytes_per_second", "nic_out_bytes_per_second"), 119.0 * MIB)


def policy() -> Policy:
    written = {"approvers": ["olive", {"id": "7", "name": "omar"}], "topics_out": ["audit.*"]}
    return Policy.from_mapping(written, "orders-prod.yaml")


def snapshot(**changes: Any) -> dict[str, Any]:
    """Six brokers in three racks, 480 partitions, 3.2 TiB."""
    cluster_bytes = 3300 * GIB
    settings = policy().tighten(Settings(), cluster_bytes=cluster_bytes, brokers=3)
    return {
        "format_version": FORMAT_VERSION,
        "connection_id": "orders-prod",
        "cluster_id": "mZ4kT9yPQ0yRrS2v1uWx3A",
        "controller": controller(),
        "observed_at": "2026-05-03T14:32:10+00:00",
        "run_id": "manual__2026-05-03T14:31:58+00:00",
        "dag_id": "kafka_rebalance",
        "requested_by": "uma",
        "reason": "Brokers 5 and 6 were added on Friday and hold nothing",
        "settings": settings.to_mapping(),
        "policy": policy().to_mapping(),
        "policy_digest": policy().digest,
        "snapshot_digest": "5" * 64,
        "brokers": 6,
        "partitions": 480,
        "cluster_bytes": cluster_bytes,
        "nonce": "a" * 32,
        **changes,
    }


def controller(**changes: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {"count": 0, "first": []}
    return {
        "broker": 2,
        "host": "kafka-2.orders.example",
        "since": "2026-04-19T03:10:44+00:00",
        "epoch": 41,
        "kraft_epoch": -1,
        "epochs_read": [41, 41],
        "queued": {"reassignments": nothing, "elections": nothing, "deletions": nothing},
        **changes,
    }


def moves(count: int = 34, topic: str = "orders.payments.authorised") -> tuple[Move, ...]:
    """Moves of falling size; every fifth only changes the leader."""
    drawn = random.Random(7)
    made = []
    for number in range(count):
        before = tuple(drawn.sample((1, 2, 3, 4), 3))
        after = (before[1], before[0], before[2]) if number % 5 == 4 else (*before[:2], 5 + number % 2)
        reason = "leaders of broker 1" if number % 5 == 4 else f"broker {before[0]} above its share"
        size = (count - number) * 600 * MIB
        made.append(Move(TopicPartition(topic, number), before, after, size, 1 + number // 12, reason))
    return tuple(made)


def all_moves(topic: str = "orders.payments.authorised") -> dict[str, tuple[Move, ...]]:
    return {"leaders_only": moves(34, topic)[4::5], "light": moves(12, topic), "balanced": moves(34, topic)}


def proposals(**changes: Any) -> dict[str, Any]:
    candidates = []
    for name, digest in DIGESTS.items():
        made = all_moves()[name]
        even = {"leaders_only": 0.4, "light": 0.7, "balanced": 1.0}[name]
        candidates.append(
            {
                "name": name,
                "digest": digest,
                "status": "partial" if name == "light" else "ok",
                "note": "stopped at max_bytes of the request" if name == "light" else "",
                "moved_bytes": sum(move.bytes_to_copy for move in made),
                "moved_bytes_bound": int(0.98 * sum(move.bytes_to_copy for move in made)),
                "moved_replicas": sum(len(move.added) for move in made),
                "leader_changes": sum(move.changes_leader for move in made),
                "rack_violations": 0,
                **{"crowded_replicas_before": 12, "crowded_replicas": 9},
                **{"excess_leaders_before": 31, "excess_leaders": 2},
                "batches": max(move.batch for move in made),
                "makespan_seconds": 0.4 if name == "leaders_only" else 5400.0,
                "makespan_bound_seconds": None if name == "leaders_only" else 4980.0,
                "peak_disk_fraction": None if name == "leaders_only" else 0.71,
                **{"controller_bytes": 118_000, "copies_at_once": 8},
                "cross_rack_bytes": sum(move.bytes_to_copy for move in made) // 3,
                **stakes(),
                "rack_limits": [
                    "rack rack-1 has 2 of 6 brokers: they carry at least 1.035 of an even share of replicas"
                ],
                "groups": [
                    {"text": "21 moves take broker 1 from 91 % to 54 % of its disk", "moves": 21, "bytes": 180 * GIB},
                    {"text": "14 moves bring broker 5 from 0 % to 54 % of its disk", "moves": 14, "bytes": 142 * GIB},
                ],
                "scores": {
                    "before": {
                        metric: {"max_over_mean": 1.62, "min_over_mean": 0.0, "cv": 0.7}
                        for metric in ("disk", "leaders", "replicas")
                    },
                    "after": {
                        metric: {"max_over_mean": 1.62 - 0.58 * even, "min_over_mean": 0.96 * even, "cv": 0.1}
                        for metric in ("disk", "leaders", "replicas")
                    },
                },
            }
        )
    return {
        "format_version": FORMAT_VERSION,
        "snapshot_digest": "5" * 64,
        "settings": snapshot()["settings"],
        "recommended": "balanced",
        "candidates": candidates,
        "outlook": outlook(),
        **changes,
    }


def proposals_of(*without: str, **changes: Any) -> dict[str, Any]:
    """The same, with these changes of every candidate, and without these keys of it."""
    plan = proposals()
    plan["candidates"] = [
        {key: value for key, value in (candidate | changes).items() if key not in without}
        for candidate in plan["candidates"]
    ]
    return plan


def outlook(**changes: Any) -> dict[str, Any]:
    """`outlook` of proposals.json: four brokers too full, two empty."""
    off = [
        {
            "metric": metric,
            "above": 4,
            "below": 2,
            "highest": {"broker": 1, "share": 1.62},
            "lowest": {"broker": 5, "share": 0.0},
        }
        for metric in ("disk", "leaders")
    ]
    return {
        "tolerance": 0.1,
        "off": off,
        "rack_violations": 0,
        "fullest_disk": {"broker": 1, "used_bytes": 930 * GIB, "capacity_bytes": 1024 * GIB},
        "first_full": {"broker": 1, "days": 11.7, "growth_bytes_per_day": 8 * GIB},
        "leaving": None,
        **changes,
    }


def loss(
    lost: Any, partitions: int, batch: int = 0, topics: tuple[str, ...] = ("orders.payments", "audit", "b")
) -> Any:
    return {"lost": lost, "partitions": partitions, "batch": batch, "topics": list(topics), "topic_count": 5}


def stakes(**worst_case: Any) -> dict[str, Any]:
    """What proposals.json says of a candidate's worst case, way back, and the topics that it holds up."""
    broker = {"today": loss(3, 35), "during": loss(1, 37, 2), "after": loss(2, 30)}
    rack = {"today": loss("rack-0", 4), "during": loss("rack-0", 4, 1), "after": loss("rack-1", 0)}
    known = {"broker": broker, "rack": rack, "min_insync_unknown": 0, "under_now": 0}
    listed = {"topic": "orders.payments", "partitions": 30, "first_batch": 1, "last_batch": 3}
    return {
        "worst_case": known | worst_case,
        "way_back": {"bytes": 287 * GIB, "seconds": 5600.0},
        "held_up": {"topics": 2, "internal": ["__consumer_offsets"], "listed": [listed]},
    }


def log_dirs(*shares: tuple[float, float, float], total: int | None = 512 * GIB) -> dict[str, Any]:
    """`log_dirs` of a candidate: broker 5's, each (before, expected, in nine of ten cases) as a share of 512 GiB."""
    names = ("used_bytes", "expected_bytes", "nine_of_ten_bytes")
    listed = [
        {"broker": 5, "path": f"/var/lib/kafka/data{number}", "total_bytes": total, "batch": number}
        | {name: int(share * 512 * GIB) for name, share in zip(names, of_dir, strict=True)}
        for number, of_dir in enumerate(shares, 1)
    ]
    return {"count": len(listed), "listed": listed}


def rates(**network: Any) -> dict[str, Any]:
    """rates.json: broker 3's network carries most."""
    tightest = [
        {"broker": broker, "way": "in", "network_bytes_per_second": 125_000_000.0, "used_bytes_per_second": used}
        for broker, used in ((3, 60_000_000.0), (1, 20_000_000.0))
    ]
    found = {
        "least_bytes_per_second": 1_300_000,
        "reason": "broker 3 takes in 1.24 MiB/s of what is written to partitions that move, in batch 2",
        "network": {"brokers": 6, "known": 6, "tightest": tightest} | network,
    }
    return {"format_version": FORMAT_VERSION, "candidates": dict.fromkeys(DIGESTS, found)}


def rejection(**changes: Any) -> dict[str, Any]:
    """rejection.json: two weeks ago omar rejected a larger plan of a cluster without broker 6."""
    then = {"candidate": "balanced", "bytes": 412 * GIB, "partitions": 41, "highest": 1.48, "brokers": [1, 2, 3, 4, 5]}
    now = then | {"bytes": 287 * GIB, "partitions": 34, "highest": 1.62, "brokers": [1, 2, 3, 4, 5, 6]}
    rejected = {
        "run_id": "scheduled__2026-04-19",
        "by": "omar",
        "at": "2026-04-19T08:00:00+00:00",
        "note": "Not before the sale",
        "then": then,
        "now": now,
        "same_moves": 0.31,
    }
    return {"format_version": FORMAT_VERSION, "rejected": rejected | changes}


def loads(brokers: int = 6, rack: str | None = "rack-") -> dict[str, list[dict[str, Any]]]:
    """Rows of the table `loads` by candidate: the last third of the brokers is empty before."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in DIGESTS}
    for name, phase, broker in product(DIGESTS, ("before", "after"), range(1, brokers + 1)):
        full = 0.0 if broker > brokers * 2 // 3 else 1.5 + 0.12 * (broker % 3 - 1)
        share = 1.0 if phase == "after" and name != "leaders_only" else full
        rows[name].append(
            {
                "candidate": name,
                "phase": phase,
                "broker": broker,
                "rack": None if rack is None else f"{rack}{broker % 3}",
                "replicas": round(240 * share),
                "leaders": round(80 * share),
                "size_bytes": round(550 * GIB * share),
                "bytes_in_per_second": 31.0 * MIB * share,
                "disk_capacity_bytes": 1024 * GIB,
                "bytes_out_per_second": 74.0 * MIB * share,
            }
            | ({} if broker == 2 else NETWORK)
        )
    return rows


def disks() -> dict[str, list[dict[str, Any]]]:
    """Rows of the table `disk` by candidate: broker 1 is emptied, broker 5 filled, over three batches."""
    filled = {1: [(825, 825), (860, 760), (790, 640), (660, 550)], 5: [(0, 0), (190, 190), (420, 380), (570, 550)]}
    return {
        name: [
            {"candidate": name, "batch": batch, "broker": broker, "peak_bytes": peak * GIB, "after_bytes": after * GIB}
            for broker, steps in filled.items()
            for batch, (peak, after) in enumerate(steps)
        ]
        for name in DIGESTS
        if name != "leaders_only"
    }


def decision(choice: str = "balanced", **changes: Any) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "choice": choice,
        "digest": DIGESTS.get(choice, ""),
        "policy_digest": policy().digest,
        "approved_by": {"id": "olive", "name": "olive"},
        "approved_at": "2026-05-03T14:40:02+00:00",
        "note": "Fine before the evening peak",
        "throttle_bytes_per_second": 50_000_000,
        **changes,
    }


def batches() -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "batches": [
            {
                "number": 1,
                "partitions": 12,
                "bytes": 164 * GIB,
                "created_at": "2026-05-03T14:41:00+00:00",
                "finished_at": "2026-05-03T15:02:11+00:00",
                "state": "done",
            },
            {
                "number": 2,
                "partitions": 12,
                "bytes": 92 * GIB,
                "created_at": "2026-05-03T15:02:20+00:00",
                "finished_at": None,
                "state": "requested",
            },
        ],
    }


def throttle(**changes: Any) -> dict[str, Any]:
    wanted = {f"brokers/{broker}": {"leader.replication.throttled.rate": "50000000"} for broker in range(1, 7)}
    return {
        "format_version": FORMAT_VERSION,
        "run": "kafka_rebalance/one",
        "candidate_digest": "0" * 64,
        "bytes_per_second": 50_000_000,
        "prior": {},
        "wanted": wanted | {"topics/orders": {"leader.replication.throttled.replicas": "0:1"}},
        "taken_at": "2026-05-03T14:40:55+00:00",
        **changes,
    }


def progress(**changes: Any) -> dict[str, Any]:
    """Of the whole plan, while batch 2 is under way."""
    stuck = "orders.payments.authorised-19: no progress for 5 min; is broker 3 up?"
    return {
        "format_version": FORMAT_VERSION,
        "updated_at": "2026-05-03T15:10:31+00:00",
        "state": "moving",
        "batch": 2,
        "batches": 3,
        "partitions_done": 17,
        "partitions_total": 34,
        "bytes_copied": 205 * GIB,
        "bytes_total": 287 * GIB,
        "bytes_per_second": 47_300_000.0,
        "eta_seconds": 1860.0,
        "this_batch": {
            "partitions_done": 5,
            "partitions_total": 12,
            "bytes_copied": 41 * GIB,
            "bytes_total": 92 * GIB,
        },
        "brokers": [
            traffic(5, (118 * GIB, 160 * GIB, 31_000_000.0), (0, 0, None)),
            traffic(1, (0, 0, None), (80 * GIB, 119 * GIB, 28_000_000.0)),
            traffic(6, (87 * GIB, 127 * GIB, 16_300_000.0), (0, 0, None)),
        ],
        "brokers_total": 4,
        "phases": {"queued": 10, "copying": 5, "in_isr": 2, "done": 17, "refused": 0},
        "anomalies": [stuck],
        "partitions": [
            {
                "partition": "orders.payments.authorised-19",
                "phase": "copying",
                "seconds": 312.0,
                "bytes_copied": 2 * GIB,
                "bytes_total": 9 * GIB,
                "next": "the copy reaches its leader's end and joins the ISR",
            }
        ],
        "events": [{"at": "2026-05-03T15:07:20+00:00", "text": stuck}],
        "open": {"orders.payments.authorised-19": stuck},
        **changes,
    }


def traffic(
    broker: int, received: tuple[int, int, float | None], sent: tuple[int, int, float | None]
) -> dict[str, Any]:
    """One broker of progress.json: bytes so far, of how many, and a second."""
    keys = ("received", "to_receive", "received_per_second", "sent", "to_send", "sent_per_second")
    return {"broker": broker, **dict(zip(keys, (*received, *sent), strict=True))}


def verification(*, passed: bool = False) -> dict[str, Any]:
    """Three checks for each of the 34 moves of `balanced`. Not passed: the second half is as before the run."""
    checks = []
    for number, move in enumerate(moves()):
        now = move.after if passed or number < 17 else move.before
        for name, expected, found, holds in (
            ("replicas", f"replicas {list(move.after)} in this order", f"replicas {list(now)}", now == move.after),
            ("in_sync", f"exactly {sorted(move.after)} in sync", f"{sorted(now)} in sync", {*now} == {*move.after}),
            ("leader", f"broker {move.after[0]} leads", f"broker {now[0]} leads", now[0] == move.after[0]),
        ):
            of = {"name": name, "subject": str(move.topic_partition), "passed": holds}
            checks.append(of | {"expectation": expected, "finding": found})
    return {
        "format_version": FORMAT_VERSION,
        "passed": passed,
        "verified_at": "2026-05-03T15:40:00+00:00",
        "checks": checks,
    }


def left_out(**changes: Any) -> dict[str, Any]:
    """One of the balanced candidate's moves that was not made."""
    one = moves()[3]
    return {
        "format_version": FORMAT_VERSION,
        "partitions": [
            {
                "topic": one.topic_partition.topic,
                "partition": one.topic_partition.partition,
                "batch": one.batch,
                "before": list(one.before),
                "after": list(one.after),
                "bytes": one.bytes_to_copy,
                "why": [f"{one.topic_partition}: replicas are now [9, 8], the approved proposal starts from others"],
                "at": "2026-05-03T15:02:11+00:00",
                **changes,
            }
        ],
        "scores": {},
    }
