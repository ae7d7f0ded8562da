"""Judges the plans of an odd cluster from the tables alone, with no code of the planner.

It knows Kafka's rules and the promises of docs/jobs.md, and counts every figure again. Each finding is one sentence.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.odd_clusters.drawn import OddCluster, Row
from bench.odd_clusters.known import Key, Known, Lists

_SEARCHED = ("leaders_only", "light", "balanced", "optimal")
_FINE = 1e-5


@dataclass(slots=True)
class Plan:
    """One candidate as it was written: its row, its entry of proposals.json, and its rows of the other tables."""

    row: Row
    entry: Row
    moves: list[Row]
    loads: list[Row]
    disk: list[Row]
    recommended: bool
    findings: list[str] = field(default_factory=list)


def findings(cluster: OddCluster, out: Path) -> list[str]:
    """What is wrong with the plans in this folder."""
    proposals = json.loads((out / "proposals.json").read_text())
    tables = {name: pq.read_table(out / name).to_pylist() for name in ("candidates", "moves", "loads", "disk")}
    entries = {entry["name"]: entry for entry in proposals["candidates"]}
    judge = _Judge(cluster)
    found: list[str] = []
    for row in tables["candidates"]:
        name = row["candidate"]
        own = {table: [one for one in rows if one["candidate"] == name] for table, rows in tables.items()}
        plan = Plan(row, entries[name], own["moves"], own["loads"], own["disk"], proposals["recommended"] == name)
        found += [f"{name}: {what}" for what in judge.judged(plan)]
    return found + list(_undercut(tables["candidates"], entries))


def _undercut(rows: Sequence[Row], entries: Mapping[str, Row]) -> Iterator[str]:
    """A proven optimum that another candidate, as near to the tolerance as its status says, undercuts by 0.1 %."""
    by_name = {row["candidate"]: row for row in rows}
    optimal, balanced = by_name.get("optimal"), by_name.get("balanced")
    if optimal is None or balanced is None or not entries["optimal"].get("is_proven"):
        return
    if optimal["status"] != "ok" or balanced["status"] != "ok":
        return
    if balanced["moved_bytes"] < optimal["moved_bytes"] * (1 - 2e-3):
        yield f"optimal is proven at {optimal['moved_bytes']} bytes, and balanced copies {balanced['moved_bytes']}"


class _Judge(Known):
    """Judges the plans of one cluster."""

    def judged(self, plan: Plan) -> list[str]:
        if plan.row["status"] == "infeasible":
            return ["it is infeasible, and has moves"] if plan.moves else []
        lists, leaders = dict(self.before), dict(self.led)
        found: list[str] = []
        for move in plan.moves:
            key = move["topic"], move["partition"]
            if key not in self.rows:
                found.append(f"{key} is no partition")
                continue
            found += [f"{key[0][-20:]}-{key[1]}: {what}" for what in self._move(plan, key, move)]
            lists[key], leaders[key] = move["after"], move["after"][0]
        if len({(move["topic"], move["partition"]) for move in plan.moves}) < len(plan.moves):
            found.append("a partition moves twice")
        found += self._figures(plan, lists, leaders)
        found += self._loads(plan, lists, leaders)
        found += self._counts(lists)
        found += self._disks(plan)
        found += self._batches(plan)
        return found + list(self._limits(plan))

    def _move(self, plan: Plan, key: Key, move: Row) -> Iterator[str]:
        before, after = self.before[key], move["after"]
        if move["before"] != before:
            yield f"it starts from {move['before']}, and the snapshot has {before}"
        if not after or len(set(after)) < len(after):
            yield f"{after} is no list"
            return
        gained = set(after) - set(before)
        if move["bytes"] != len(gained) * self.size[key] or move["size_bytes"] != self.size[key]:
            yield f"it has {move['bytes']} bytes to copy, and {len(gained)} copies of {self.size[key]}"
        if move["leader"] != self.led[key]:
            yield f"its leader is {self.led[key]}, not {move['leader']}"
        if self.rows[key]["excluded"] or not self.selects(key[0]):
            yield "it may not be changed"
        if self.matches(key[0], "pinned_topics") and set(after) != set(before):
            yield "it is pinned, and moves"
        for why, shut in (
            ("does not exist", gained - set(self.brokers)),
            ("is in brokers_out, and receives a replica", gained & self.closed),
            ("is to be emptied, and receives a replica", gained & self.leaving),
            ("may not receive, and receives a replica", gained - (gained if self.only is None else self.only)),
            ("is outside the pool, and receives a replica", gained - self.pool_of(key[0])),
        ):
            if shut:
                yield f"broker {sorted(shut)} {why}"
        if plan.row["candidate"] != "as_kafka":
            yield from self._rack_pinned(key, before, after)
        if plan.row["candidate"] in _SEARCHED:
            yield from self._searched_move(key, before, after)
        elif plan.recommended and after[0] != self.led[key] and after[0] in self.closed:
            yield f"brokers_out {after[0]} is recommended as a new leader"

    def _searched_move(self, key: Key, before: Sequence[int], after: Sequence[int]) -> Iterator[str]:
        job, row = self.settings["job"], self.rows[key]
        factor = self.settings.get("replication_factor")
        if lost := sorted((set(before) - set(after)) & self.closed):
            yield f"brokers_out {lost} loses a replica"
        if factor is None and len(after) != len(before):
            yield f"its factor changes from {len(before)} to {len(after)}"
        if factor is not None and (len(after) > max(factor, len(before)) or len(after) < min(factor, len(before))):
            yield f"its factor changes from {len(before)} to {len(after)}, and {factor} was asked for"
        if row["min_insync_replicas"] and len(after) < min(len(before), row["min_insync_replicas"]):
            yield f"{after} is shorter than min.insync.replicas"
        if after[0] != self.led[key]:
            if after[0] in self.closed:
                yield f"brokers_out {after[0]} becomes its leader instead of {self.led[key]}"
            if after[0] in self.leaving and after[0] != before[0]:
                yield f"broker {after[0]} is to be emptied, and becomes its leader"
            yield from self._out_of_sync(key, before, after)
        if set(after) < set(before):
            behind = [broker for broker in after if broker not in row["isr"] and broker not in self.closed]
            dropped = [broker for broker in row["isr"] if broker not in after and broker not in self.leaving]
            if row["isr"] and behind and dropped:
                yield f"{after} of {before} keeps {behind}, which is not in the ISR, and drops {dropped}, which is"
        if job in ("leaders", "elect") and set(after) != set(before):
            yield "it moves, and the job moves nothing"
        yield from self._rack_rule(key, before, after)

    def _out_of_sync(self, key: Key, before: Sequence[int], after: Sequence[int]) -> Iterator[str]:
        """A new leader that is out of the ISR, while another replica of the new list could lead."""
        isr = self.rows[key]["isr"]
        if not isr or after[0] not in before or after[0] in isr:
            return
        able = [one for one in after if (one in isr or one not in before) and one not in self.closed | self.leaving]
        if able:
            yield f"{after[0]} is out of the ISR {isr} and becomes its leader, though {able} could lead"

    def _rack_rule(self, key: Key, before: Sequence[int], after: Sequence[int]) -> Iterator[str]:
        """No list covers fewer racks than before, of those that its pool has, unless a shorter one keeps the ISR."""
        racks = [{rack for rack in self.racks_of(held) if rack is not None} for held in (before, after)]
        pool = self.pool_of(key[0])
        there = {self.brokers[broker]["rack"] for broker in self.staying if broker in pool} - {None}
        if None in self.racks_of([*before, *after]):
            return  # how brokers without a rack count is the planner's own choice
        if len(after) < len(before) and set(before) - set(self.rows[key]["isr"]):
            return
        if len(racks[1]) < min(len(racks[0] & there), len(after)):
            yield f"{after} is on {len(racks[1])} racks, and {before} on {len(racks[0])}"

    def _rack_pinned(self, key: Key, before: Sequence[int], after: Sequence[int]) -> Iterator[str]:
        racks = [Counter(self.racks_of(held)) for held in (before, after)]
        if not self.matches(key[0], "rack_pinned_topics") or None in racks[0] or None in racks[1]:
            return
        fewer, more = racks[0] - racks[1], racks[1] - racks[0]
        if fewer and more:
            yield f"it is pinned to its racks, and goes from {dict(racks[0])} to {dict(racks[1])}"

    def _figures(self, plan: Plan, lists: Lists, leaders: Mapping[Key, int]) -> Iterator[str]:
        moved = [(key, set(held) - set(self.before[key])) for key, held in lists.items()]
        counted = {
            "moved_replicas": sum(len(gained) for _, gained in moved),
            "moved_bytes": sum(len(gained) * self.size[key] for key, gained in moved),
            "leader_changes": sum(leaders[key] != self.led[key] for key in lists),
            "batches": len({move["batch"] for move in plan.moves}),
            "crowded_replicas_before": self.crowded(self.before),
            "crowded_replicas": self.crowded(lists),
            "cross_rack_bytes": self.cross_rack_bytes(plan.moves),
        }
        for figure, value in counted.items():
            if plan.row[figure] != value or plan.entry[figure] != value:
                yield f"{figure} is {plan.row[figure]}, and {value} by a recount"
        crowded, before = counted["crowded_replicas"], counted["crowded_replicas_before"]
        promised = plan.row["candidate"] in _SEARCHED and self.settings["job"] in ("balance", "leaders")
        if promised and not self.pools and not self.has_to_move() and (crowded or 0) > (before or 0):
            yield f"crowded replicas rise from {before} to {crowded}"

    def _loads(self, plan: Plan, lists: Lists, leaders: Mapping[Key, int]) -> Iterator[str]:
        phases = {"before": self.loads_of(self.before, self.led), "after": self.loads_of(lists, leaders)}
        rated = any(row["bytes_in_per_second"] is not None for row in self.rows.values())
        for row in plan.loads:
            counted = phases[row["phase"]]
            for column, metric in (("replicas", "replicas"), ("leaders", "leaders"), ("size_bytes", "disk")):
                if row[column] != counted[metric][row["broker"]]:
                    value = counted[metric][row["broker"]]
                    yield f"{column} of broker {row['broker']} {row['phase']} are {row[column]}, {value} by a recount"
            value = counted["bytes_in"][row["broker"]]
            if rated and not math.isclose(row["bytes_in_per_second"], value, rel_tol=1e-9, abs_tol=1e-6):
                yield f"bytes in of broker {row['broker']} are {row['bytes_in_per_second']}, and {value} by a recount"
        if {row["broker"] for row in plan.loads} != set(self.all_brokers):
            yield "the loads lack a broker, or have one too many"
        for phase, counted in phases.items():
            for metric, score in plan.entry["scores"][phase].items():
                relative = [
                    (counted[metric][broker], share * sum(counted[metric][one] for one in pool))
                    for pool in self.all_pools()
                    for broker, share in self.share(metric, pool).items()
                ]
                ratios = [load / mean if mean > 0 else math.inf if load > 0 else 1.0 for load, mean in relative]
                for figure, value in (("max_over_mean", max(ratios)), ("min_over_mean", min(ratios))):
                    said = score[figure]
                    said = math.inf if said is None else said
                    if not math.isclose(said, value, rel_tol=_FINE, abs_tol=_FINE):
                        yield f"{figure} of {metric} {phase} is {said}, and {value} by a recount"

    def _disks(self, plan: Plan) -> Iterator[str]:
        now, peak = Counter(self.used), Counter(self.used)
        told = {(row["batch"], row["broker"]): row for row in plan.disk}
        for broker in self.all_brokers:
            row = told.pop((0, broker), None)
            if row is None or row["peak_bytes"] != now[broker]:
                yield f"the disk of broker {broker} holds {now[broker]} bytes before, not {row and row['peak_bytes']}"
        for batch in sorted({move["batch"] for move in plan.moves}):
            comes: Counter[int] = Counter()
            goes: Counter[int] = Counter()
            for move in plan.moves:
                if move["batch"] == batch:
                    size = self.size[move["topic"], move["partition"]]
                    comes.update(dict.fromkeys(set(move["after"]) - set(move["before"]), size))
                    goes.update(dict.fromkeys(set(move["before"]) - set(move["after"]), size))
            for broker in sorted(set(+comes) | set(+goes)):
                most = now[broker] + comes[broker]
                now[broker] = most - goes[broker]
                peak[broker] = max(peak[broker], most)
                row = told.pop((batch, broker), None)
                if row is None or (row["peak_bytes"], row["after_bytes"]) != (most, now[broker]):
                    yield f"the disk of broker {broker} in batch {batch} has {most} and {now[broker]} bytes, not {row}"
                if plan.recommended and (more := self.beyond(broker, most)) and comes[broker]:
                    yield f"it is recommended, and fills the disk of broker {broker} {more} in batch {batch}"
        if told:
            yield f"the table of disks has {len(told)} rows too many"
        full = [peak[broker] / size for broker in self.staying if (size := self.disk(broker))]
        said = plan.row["peak_disk_fraction"]
        if (said is None) != (not full) or (full and not math.isclose(said, max(full), abs_tol=2e-6, rel_tol=2e-6)):
            yield f"peak_disk_fraction is {said}, and {max(full, default=None)} by a recount"

    def _batches(self, plan: Plan) -> Iterator[str]:
        numbers = {move["batch"] for move in plan.moves}
        if numbers != set(range(1, len(numbers) + 1)):
            yield f"batches are numbered {sorted(numbers)}"
        settings = self.settings
        partitions = settings.get("partitions_per_batch") or max(250, len(self.brokers))
        changes, most_copies = settings.get("leader_changes_per_batch", 1000), settings.get("copies_per_broker") or 20
        most = 0
        for batch in numbers:
            own = [move for move in plan.moves if move["batch"] == batch]
            ends: Counter[tuple[str, int]] = Counter()
            alone = len(own) == 1
            for move in own:
                gained, key = set(move["after"]) - set(move["before"]), (move["topic"], move["partition"])
                ends.update({("in", broker): 1 for broker in gained})
                ends.update({("out", self.led[key]): len(gained)})
            if len(own) > partitions:
                yield f"batch {batch} has {len(own)} partitions, and {partitions} are allowed"
            led = sum(move["after"][0] != self.led[move["topic"], move["partition"]] for move in own)
            if led > changes:
                yield f"batch {batch} changes {led} leaders, and {changes} are allowed"
            most = max(most, *ends.values(), 0)
            if max(ends.values(), default=0) > most_copies and not alone and not self._one_by_one(own, most_copies):
                yield f"a broker has {max(ends.values())} copies in batch {batch}, and {most_copies} are allowed"
        if plan.row["copies_at_once"] != most:
            yield f"copies_at_once is {plan.row['copies_at_once']}, and {most} by a recount"

    def _one_by_one(self, moves: Sequence[Row], most: int) -> bool:
        """Whether a partition alone needs more copies of its leader than allowed."""
        return any(len(set(move["after"]) - set(move["before"])) > most for move in moves)

    def _counts(self, lists: Lists) -> Iterator[str]:
        """Brokers with more replicas than they may have, and than they had."""
        most: Any = self.settings.get("replicas_per_broker")
        before, after = (Counter(one for held in some.values() for one in held) for some in (self.before, lists))
        for broker, count in sorted(after.items()):
            if most is not None and count > max(most, before[broker]):
                yield f"broker {broker} ends with {count} replicas, had {before[broker]}, and may have {most}"

    def _limits(self, plan: Plan) -> Iterator[str]:
        limits = {"max_bytes": "moved_bytes", "max_leader_changes": "leader_changes"}
        for limit, figure in limits.items():
            allowed: Any = self.settings.get(limit)
            if allowed is not None and plan.row[figure] > allowed:
                yield f"{figure} is {plan.row[figure]}, and {limit} is {allowed}"
