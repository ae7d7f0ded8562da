"""Draws a cluster and a request as no test of ours would write them. It uses no code of the planner."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]

_LARGEST_ID = 2**31 - 1
_JOBS = ("balance", "leaders", "elect", "drain", "replace", "replication_factor", "relieve", "repair_racks")
_OFTEN = ("balance",) * 7 + ("drain",) * 4 + ("replace", "replication_factor") * 3 + ("repair_racks", "relieve") * 2
_LOG_DIR = pa.struct([("path", pa.string()), ("total_bytes", pa.int64()), ("usable_bytes", pa.int64())])
_BROKERS = pa.schema(
    [
        ("broker", pa.int32()),
        ("rack", pa.string()),
        ("state", pa.string()),
        ("disk_capacity_bytes", pa.int64()),
        ("disk_used_bytes", pa.int64()),
        ("log_dirs", pa.list_(_LOG_DIR)),
        ("nic_in_bytes_per_second", pa.float64()),
        ("nic_out_bytes_per_second", pa.float64()),
    ]
)
_PARTITIONS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("replicas", pa.list_(pa.int32())),
        ("size_bytes", pa.int64()),
        ("isr", pa.list_(pa.int32())),
        ("leader", pa.int32()),
        ("bytes_in_per_second", pa.float64()),
        ("bytes_out_per_second", pa.float64()),
        ("min_insync_replicas", pa.int32()),
        ("excluded", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class OddCluster:
    """The rows of a snapshot's two tables, and the settings of a request."""

    brokers: Sequence[Row]
    partitions: Sequence[Row]
    settings: Row

    def write(self, folder: Path) -> None:
        """Writes the snapshot, and the settings as `settings.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows, schema in (
            ("brokers", self.brokers, _BROKERS),
            ("partitions", self.partitions, _PARTITIONS),
        ):
            pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), folder / f"{name}.parquet")
        (folder / "settings.json").write_text(json.dumps(self.settings))


def draw(seed: int) -> OddCluster:
    """The odd cluster of this seed."""
    rng = random.Random(seed)
    brokers = _brokers(rng)
    alive = [row["broker"] for row in brokers]
    dead = sorted({rng.randrange(_LARGEST_ID) for _ in range(rng.choice((0, 0, 0, 0, 1, 2)))} - set(alive))
    empty = set(rng.sample(alive, rng.randrange(len(alive)) // 2)) if rng.random() < 0.5 else set()
    holders = [broker for broker in alive if broker not in empty] + dead
    partitions = _partitions(rng, brokers, holders, dead)
    _fill_disks(rng, brokers, partitions)
    return OddCluster(brokers, partitions, _settings(rng, brokers, partitions, dead, sorted(empty)))


def _brokers(rng: random.Random) -> list[Row]:
    count = rng.choice((1, 2, 3, 3, 4, 4, 5, 6, 6, 7, 9, 12, 12, 17, 30))
    ids = rng.choice(
        (
            list(range(count)),
            list(range(1, count + 1)),
            rng.sample(range(1000, 1100), count),
            rng.sample(range(_LARGEST_ID - 100, _LARGEST_ID + 1), count),
            [rng.randrange(_LARGEST_ID) for _ in range(count)],
        )
    )
    ids = sorted(set(ids))
    kind = rng.choice(("none", "each", "two", "three", "three", "uneven", "some"))
    kinds: Mapping[str, Callable[[int], str | None]] = {
        "none": lambda number: None,
        "each": lambda number: f"rack-{number}",
        "two": lambda number: "ab"[number % 2],
        "three": lambda number: "abc"[number % 3],
        "uneven": lambda number: "a" if number else "b",
        "some": lambda number: None if rng.random() < 0.3 else "ab"[number % 2],
    }
    racks = kinds[kind]
    nics = rng.choice((None, None, 1e8, 1e9))
    return [
        {
            "broker": broker,
            "rack": racks(number),
            "state": rng.choice((None, None, None, "keep", "keep", "keep", "new")),
            "nic_in_bytes_per_second": nics if rng.random() < 0.9 else None,
            "nic_out_bytes_per_second": nics and nics * rng.choice((1.0, 1.0, 2.5)),
        }
        for number, broker in enumerate(ids)
    ]


def _partitions(rng: random.Random, brokers: Sequence[Row], holders: Sequence[int], dead: Sequence[int]) -> list[Row]:
    rack_of = {row["broker"]: row["rack"] for row in brokers}
    placing = rng.choice(("even", "random", "random", "crowded", "one_rack"))
    sizes = rng.choice(("equal", "heavy", "heavy", "giant", "zero", "unknown"))
    rated, health = rng.random() < 0.6, rng.choice(("sound", "sound", "sound", "lagging", "bad"))
    largest = rng.choice((1, 2, 2, 3, 3, 3, 4, 6))
    rows: list[Row] = []
    for topic in range(rng.choice((1, 1, 2, 3, 5, 8))):
        name = rng.choice((f"t{topic}", f"orders.{topic}", f"{'x' * 240}{topic}", f"_{topic}-a_b", f"0{topic}"))
        factor = rng.randint(1, largest)
        mixed = rng.random() < 0.2
        least = rng.choice((None, 1, 1, 2))
        excluded = rng.random() < 0.08
        for number in range(rng.choice((1, 1, 2, 3, 6, 8, 12, 30))):
            wanted = rng.randint(1, largest) if mixed else factor
            replicas = _list(rng, placing, holders, rack_of, min(wanted, len(holders)), len(rows))
            size = _size(rng, sizes, len(rows))
            living = [broker for broker in replicas if broker not in dead]
            isr = [broker for broker in living if health == "sound" or rng.random() < (0.9, 0.5)[health == "bad"]]
            leader = isr[0] if isr and rng.random() < 0.8 else rng.choice(isr) if isr else -1
            rate = rng.lognormvariate(8, 2) if rated and rng.random() < 0.95 else None
            rows.append(
                {
                    "topic": name,
                    "partition": number if rng.random() < 0.995 else number + 10**6,
                    "replicas": replicas,
                    "size_bytes": size,
                    "isr": isr,
                    "leader": leader if rng.random() < 0.97 else None,
                    "bytes_in_per_second": rate,
                    "bytes_out_per_second": rate and rate * rng.choice((0.0, 1.0, 3.0)),
                    "min_insync_replicas": least,
                    "excluded": excluded,
                }
            )
    return rows


def _list(
    rng: random.Random, placing: str, holders: Sequence[int], rack_of: Mapping[int, str | None], factor: int, row: int
) -> list[int]:
    if placing == "even":
        return [holders[(row + position) % len(holders)] for position in range(factor)]
    if placing == "crowded" and rng.random() < 0.8:
        return rng.sample(holders[: max(factor, len(holders) // 2)], factor)
    if placing == "one_rack":
        rack = rack_of.get(rng.choice(holders))
        inside = [broker for broker in holders if rack_of.get(broker) == rack]
        outside = [broker for broker in holders if broker not in inside]
        return (rng.sample(inside, len(inside)) + rng.sample(outside, len(outside)))[:factor]
    return rng.sample(holders, factor)


def _size(rng: random.Random, kind: str, row: int) -> int | None:
    if kind == "equal":
        return 10**9
    if kind == "giant":
        return 10**12 if row == 3 else rng.randint(1, 10**9)
    if kind == "zero":
        return 0
    if kind == "unknown" and rng.random() < 0.3:
        return None
    return int(rng.lognormvariate(18, 2))


def _fill_disks(rng: random.Random, brokers: Sequence[Row], partitions: Sequence[Row]) -> None:
    """Gives disks a size and a use: none known, all alike, mixed, nearly full, with several log dirs."""
    kind = rng.choice(("unknown", "alike", "alike", "mixed", "full", "full", "some"))
    if kind == "unknown":
        return
    held = {row["broker"]: 0 for row in brokers}
    for row in partitions:
        for broker in row["replicas"]:
            if broker in held:
                held[broker] += row["size_bytes"] or 0
    most = max(1000, *held.values())
    several = rng.random() < 0.2
    for row in brokers:
        if kind == "some" and rng.random() < 0.5:
            continue
        own = held[row["broker"]]
        other = rng.choice((0, 0, int(most * rng.random() * 0.2)))
        capacity = {
            "full": int(max(own, most // 3) * rng.choice((1.0001, 1.02, 1.1, 1.5))) + other + 1,
            "mixed": int(most * rng.choice((1.2, 2, 4))) + other,
        }.get(kind, 2 * most + other)
        row["disk_capacity_bytes"] = capacity
        row["disk_used_bytes"] = own + other if rng.random() < 0.9 else None
        if several:
            part, free = capacity // 2, max(0, capacity - own - other)
            uneven = rng.randint(0, min(free, part))
            row["log_dirs"] = [
                {"path": "/data/1", "total_bytes": part, "usable_bytes": uneven},
                {"path": "/data/2", "total_bytes": part, "usable_bytes": min(part, free - uneven)},
            ]


def _settings(
    rng: random.Random, brokers: Sequence[Row], partitions: Sequence[Row], dead: Sequence[int], empty: Sequence[int]
) -> Row:
    ids, topics = [row["broker"] for row in brokers], sorted({row["topic"] for row in partitions})
    free = list(ids)
    rng.shuffle(free)
    found: Row = {"seed": rng.randrange(100)} | _of_job(rng, free, dead, empty)
    if len(free) > 2 and rng.random() < 0.2:
        found["brokers_out"] = [free.pop() for _ in range(rng.choice((1, 1, 2)))]
    if found["job"] not in ("leaders", "elect") and free:
        if rng.random() < 0.15:
            found["brokers_in"] = rng.sample(free, rng.randint(1, len(free)))
        elif empty and rng.random() < 0.3:
            found["brokers_in"] = "new"
    found |= _of_topics(rng, topics, racked=all(row["rack"] for row in brokers))
    found |= _some(rng, _CHANCES)
    if len(ids) >= 4 and len(topics) >= 2 and rng.random() < 0.2:
        half = rng.sample(ids, len(ids) // 2)
        found["broker_pools"] = [{"topics": rng.sample(topics, 1), "brokers": half}]
        found["more_replicas_than_racks"] = True
    if found["job"] != "elect" and rng.random() < 0.2:
        found["plan"] = _plan(rng, partitions, ids)
    return found


_ALL = ["leaders_only", "light", "balanced", "optimal", "as_kafka"]
# {setting: (how often it is there, its values)}
_CHANCES: Mapping[str, tuple[float, Sequence[Any]]] = {
    "rackless_brokers": (0.9, ("one_rack",)),
    "more_replicas_than_racks": (0.25, (True,)),
    "tolerance": (0.5, (0.01, 0.05, 0.1, 0.3)),
    "max_bytes": (0.15, (0, 1, 10**6, 10**9, 10**10)),
    "max_leader_changes": (0.12, (0, 1, 3, 10)),
    "replicas_per_broker": (0.15, (1, 5, 20, 60)),
    "copies_per_broker": (0.15, (1, 2, 5)),
    "partitions_per_batch": (0.15, (1, 3, 10)),
    "leader_changes_per_batch": (0.15, (1, 3)),
    "throttle_bytes_per_second": (0.3, (1, 10**6, 2**40)),
    "disk_headroom": (0.3, (0.0, 0.05, 0.3)),
    "prefer": (0.2, ("fewest_bytes",)),
    "copies_within_racks": (0.1, (True,)),
    "candidates": (0.3, (_ALL,)),
}


def _some(rng: random.Random, chances: Mapping[str, tuple[float, Sequence[Any]]]) -> Row:
    return {key: rng.choice(values) for key, (chance, values) in chances.items() if rng.random() < chance}


def _of_job(rng: random.Random, free: list[int], dead: Sequence[int], empty: Sequence[int]) -> Row:
    """The job and what it needs. It takes the brokers that it names from `free`."""
    job = rng.choice(_OFTEN) if rng.random() < 0.85 else rng.choice(_JOBS)
    if dead:
        job = rng.choice(("drain", "drain", "drain", "replace", "replace", "balance"))
    if job == "drain" or (job == "leaders" and rng.random() < 0.5):
        leaving = [*dead, *(free.pop() for _ in range(rng.choice((0, 1, 1, 2))) if len(free) > 1)]
        return {"job": job, "drain": leaving or [free.pop()]}
    if job == "replace":
        new = [broker for broker in empty if broker in free] or (list(free) if rng.random() < 0.2 else [])
        old = [*dead, *(broker for broker in free if broker not in new)][: max(len(dead), 1, len(new) // 2)]
        pairs = {str(one): other for one, other in zip(old, new, strict=False) if one != other}
        free[:] = [broker for broker in free if broker not in new and broker not in old]
        if old and len(pairs) == len(old):
            return {"job": job, "replace": pairs}
        return {"job": "drain", "drain": list(dead)} if dead else {"job": "balance"}
    if job == "replication_factor":
        return {"job": job, "replication_factor": rng.choice((1, 2, 2, 3, 3, 4))}
    if job == "relieve":
        return {"job": job} | _some(rng, {"relieve_above": (0.6, (0.5, 0.8, 0.9))})
    return {"job": job}


def _of_topics(rng: random.Random, topics: Sequence[str], *, racked: bool) -> Row:
    """Which topics may move, and how."""
    one = [[topic] for topic in topics]
    found = _some(rng, {"topics_out": (0.12 if len(topics) > 1 else 0.0, one), "pinned_topics": (0.12, one)})
    if "topics_out" not in found and rng.random() < 0.12:
        found["topics_in"] = rng.sample(topics, rng.randint(1, len(topics)))
    return found | _some(rng, {"rack_pinned_topics": (0.3 if racked else 0.03, (["*"], *one))})


def _plan(rng: random.Random, partitions: Sequence[Row], ids: Sequence[int]) -> str:
    """A plan as somebody may hand it in, with lists of the same length."""
    chosen = rng.sample(list(partitions), rng.randint(1, min(10, len(partitions))))
    lists = [
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "replicas": rng.sample(list(ids), min(len(ids), len(row["replicas"]))),
        }
        for row in chosen
    ]
    return json.dumps({"version": 1, "partitions": lists})
