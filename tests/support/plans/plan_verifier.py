"""What must hold for every candidate of every plan, worked out without the planner's arrays."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from kafka_rebalance.documents.candidate_notes import NoteKind
from kafka_rebalance.model.candidate import Move, candidate_digest
from kafka_rebalance.model.partition import replica_list_problem
from kafka_rebalance.model.settings import LEADERS_ALONE, REPLACE_LOG_DIR, Settings, matches
from kafka_rebalance.planning.batches import controller_bytes
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from support.plans.batch_runs import run_batches
from support.plans.rack_rule import rack_rule_problem

Rows = list[dict[str, Any]]
NOT_SEARCHED = ("given", "as_kafka")  # they promise the limits, and nothing of what the job asks for


def verify(plan: DescribedCandidate, snapshot_digest: str, brokers: Rows, partitions: Rows, settings: Settings) -> None:
    """Fails with the partition and the rule that the plan breaks."""
    settings = settings.for_brokers(len(brokers))
    candidate = plan.candidate
    rows = {(row["topic"], row["partition"]): row for row in partitions}
    assert len({move.topic_partition for move in candidate.moves}) == len(candidate.moves), "one move a partition"
    _verify_lists(candidate.moves, rows, brokers, settings, candidate.name)
    _verify_brokers(plan, rows, brokers, settings)
    if settings.job == REPLACE_LOG_DIR and candidate.name not in NOT_SEARCHED:
        _verify_lost(plan, rows, brokers, settings)
    _verify_limits(candidate.moves, settings)
    _verify_room(plan, rows, brokers, settings)
    _verify_batches(candidate.moves, settings)
    _verify_controller(plan, rows)
    _verify_disks_over_time(plan, brokers, partitions, settings)
    figures = candidate.summary
    assert figures["moved_bytes"] == sum(move.bytes_to_copy for move in candidate.moves)
    assert figures["moved_replicas"] == sum(len(move.added) for move in candidate.moves)
    assert figures["leader_changes"] == sum(move.changes_leader for move in candidate.moves)
    assert figures["moved_bytes_bound"] <= figures["moved_bytes"]
    digest = candidate_digest(candidate.name, snapshot_digest, settings.to_mapping(), candidate.moves)
    assert candidate.digest == digest
    if candidate.status == "infeasible":
        assert not candidate.moves
        assert plan.notes


def _verify_lists(
    moves: tuple[Move, ...], rows: dict[tuple[str, int], dict[str, Any]], brokers: Rows, settings: Settings, name: str
) -> None:
    leaving = leaving_of(brokers, settings)
    share = settings.more_replicas_than_racks
    receiving = receivers_of(rows.values(), brokers, settings)
    for move in moves:
        row = rows[move.topic_partition]
        where = f"{name} {move.topic_partition} {move.before} -> {move.after}"
        pool = pool_of(row["topic"], brokers, settings)
        in_pool = [one for one in brokers if one["broker"] in pool]
        racks = racks_that_count(in_pool, leaving, share=share)
        racks |= {one["broker"]: one["rack"] for one in brokers if one.get("rack") in set(racks.values()) - {None}}
        stay = [broker for broker in pool if broker not in leaving] if share else None
        assert set(move.added) <= pool, f"{where}: only {pool} may hold the topic"
        assert move.before == tuple(row["replicas"]), where
        assert move.leader == leader_of(row), where
        if move.is_election:
            assert name not in NOT_SEARCHED, where
            assert move.changes_leader, where
            assert not row["isr"] or move.after[0] in row["isr"], where
            assert move.leader not in settings.brokers_out, where
        assert move.is_election or settings.job != "elect", where
        assert replica_list_problem(move.after, {row["broker"] for row in brokers}) is None, where
        assert settings.selects(row["topic"]), where
        assert not row.get("excluded"), where
        assert move.reason, where
        kept = set(settings.brokers_out)
        factor = len(move.before)
        pinned = matches(row["topic"], settings.pinned_topics)
        assert not pinned or set(move.after) == set(move.before), where
        if matches(row["topic"], settings.rack_pinned_topics) and len(move.after) == len(move.before):
            assert not set(racks_of(move.before, racks)) - {None} - set(racks_of(move.after, racks)), where
            assert None in racks_of(move.before, racks) or racks_of(move.before, racks) == racks_of(move.after, racks)
        if settings.replication_factor is not None and not pinned and name != "leaders_only":
            factor = max(settings.replication_factor, len(kept & set(move.before)))
        if name in NOT_SEARCHED:
            assert not set(settings.leaving) & set(move.added), where
        else:
            assert len(move.after) == factor, where
            breaks = partial(_breaks_the_rack_rule, racks=racks, share=stay)
            stays = kept & set(move.before)
            assert not breaks(move.after) or breaks(move.before) or _isr_before_racks(move, row, stays, pool, breaks), (
                where
            )
        if name == "leaders_only" or (settings.job in LEADERS_ALONE and name not in NOT_SEARCHED):
            assert set(move.after) == set(move.before), where
        assert kept & set(move.before) == kept & set(move.after), where
        _verify_leader(move, row, kept)
        assert not kept & set(move.added), where
        assert set(move.added) <= receiving, f"{where}: only {receiving} may receive"
        sound = set(move.before) <= pool and rack_rule_problem(move.before, racks, share=stay) is None
        if settings.job == "balance" and not leaving and sound:
            assert not set(move.added) & set(row.get("left_brokers") or ()), f"{where}: {row['left_brokers']}"


def _breaks_the_rack_rule(
    brokers: Collection[int], *, racks: Mapping[int, str | None], share: Collection[int] | None
) -> bool:
    return rack_rule_problem(tuple(brokers), racks, share=share) is not None


def _isr_before_racks(
    move: Move, row: Mapping[str, Any], stays: set[int], pool: set[int], breaks: Callable[[Collection[int]], bool]
) -> bool:
    """Whether no smaller list keeps the rack rule with as many of the ISR, and those that `stays` holds in any case."""
    in_sync = set(row["isr"] or ()) & set(move.before)
    lists = (set(kept) for kept in combinations(pool | set(move.before), len(move.after)))
    as_sound = (kept for kept in lists if stays <= kept and len(in_sync & kept) >= len(in_sync & set(move.after)))
    return len(move.after) < len(move.before) and all(map(breaks, as_sound))


def _verify_leader(move: Move, row: Mapping[str, Any], closed: Collection[int]) -> None:
    """Leaders stay with brokers_out and none is added there, and nobody out of the ISR becomes one."""
    first, leader, isr = move.after[0], leader_of(row), row.get("isr")
    assert leader not in closed or first == leader, (row, move)
    if first != leader:
        assert first not in closed, (row, move)
        assert not isr or first in isr or first not in row["replicas"], (row, move)


def pool_of(topic: str, brokers: Rows, settings: Settings) -> set[int]:
    """The brokers that may hold the topic."""
    ids = {row["broker"] for row in brokers}
    for pool in settings.broker_pools:
        if matches(topic, pool.topics):
            return ids & set(pool.brokers)
    return ids - {broker for pool in settings.broker_pools for broker in pool.brokers}


def receivers_of(partitions: Collection[Mapping[str, Any]], brokers: Rows, settings: Settings) -> set[int]:
    """The brokers that the settings let receive replicas, whether they are emptied or kept out or not."""
    ids = {row["broker"] for row in brokers}
    if settings.brokers_in == "new":
        return ids - {broker for row in partitions for broker in row["replicas"]}
    return ids & set(settings.named_receivers) if settings.brokers_in else ids


def leaving_of(brokers: Rows, settings: Settings) -> set[int]:
    """The brokers that are to be emptied: what the settings say of one wins over the table."""
    leaving = set(settings.leaving)
    if not settings.drain:
        said = {*settings.brokers_out, *settings.replace.values()}
        leaving |= {row["broker"] for row in brokers if row.get("state") == "drain"} - said
    return leaving


def leader_of(row: Mapping[str, Any]) -> int:
    """Who leads now; the first replica where nobody of the list is known to."""
    leader: int = row["leader"] if row.get("leader") in row["replicas"] else row["replicas"][0]
    return leader


def racks_that_count(
    brokers: Sequence[Mapping[str, Any]], leaving: Collection[int], *, share: bool = False
) -> dict[int, str | None]:
    """{broker: rack}; those without one count as one rack, where others that stay have one.

    A broker that is emptied need not have a rack: a dead one has none. If racks may `share`, a rack in which no broker
    stays is none.
    """
    if share:
        stay = {row.get("rack") for row in brokers if row["broker"] not in leaving}
        brokers = [row for row in brokers if row["broker"] not in leaving or row.get("rack") in stay]
    if not any(row.get("rack") for row in brokers if row["broker"] not in leaving):
        return {row["broker"]: None for row in brokers if row["broker"] not in leaving}
    return {row["broker"]: row.get("rack") for row in brokers if row["broker"] not in leaving or row.get("rack")}


def racks_of(replicas: Sequence[int], racks: Mapping[int, str | None]) -> list[str | None]:
    """The racks in alphabetical order, None for brokers that leave without one."""
    found = [racks[broker] or "none" if broker in racks else None for broker in replicas]
    return sorted(found, key=lambda rack: (rack is not None, rack or ""))


def _verify_brokers(
    plan: DescribedCandidate, rows: dict[tuple[str, int], dict[str, Any]], brokers: Rows, settings: Settings
) -> None:
    candidate, leaving = plan.candidate, leaving_of(brokers, settings)
    after = {key: tuple(row["replicas"]) for key, row in rows.items()}
    after |= {move.topic_partition: move.after for move in candidate.moves}
    assert not any(leaving & set(move.added) for move in candidate.moves)
    ours = candidate.name not in ("leaders_only", *NOT_SEARCHED)
    # Because nobody may lead instead, or for want of room.
    stays = any(note.kind in (NoteKind.LISTS_WITHOUT_LEADER, NoteKind.LISTS_WITHOUT_ROOM) for note in plan.notes)
    if ours and settings.job not in LEADERS_ALONE and candidate.status != "infeasible" and not stays:
        for key, row in rows.items():
            if settings.selects(row["topic"]) and not row.get("excluded"):
                assert not leaving & set(after[key]), f"{key} still on a broker that leaves: {after[key]}"
    if candidate.name == "balanced" and settings.job != "relieve" and candidate.status == "ok":
        for key, row in rows.items():
            free = settings.selects(row["topic"]) and not row.get("excluded")
            if free and settings.job not in LEADERS_ALONE and not matches(row["topic"], settings.pinned_topics):
                pool = pool_of(row["topic"], brokers, settings)
                assert set(after[key]) - set(settings.brokers_out) <= pool, f"{key} outside its pool"
    held = Counter(broker for replicas in after.values() for broker in replicas)
    if settings.replicas_per_broker is not None:
        before = Counter(broker for row in rows.values() for broker in row["replicas"])
        for broker, count in held.items():
            assert count <= max(settings.replicas_per_broker, before[broker]), f"replicas of {broker}"
    planned = {tuple(move.topic_partition) for move in candidate.moves}
    leads = Counter(lists[0] if key in planned else leader_of(rows[key]) for key, lists in after.items())
    for number, row in enumerate(sorted(brokers, key=lambda row: row["broker"])):
        ids = sorted({row["broker"] for row in brokers} | {b for row in rows.values() for b in row["replicas"]})
        assert plan.loads_after[ids.index(row["broker"]), 0] == held[row["broker"]], number
        assert plan.loads_after[ids.index(row["broker"]), 3] == leads[row["broker"]], number


def _verify_lost(
    plan: DescribedCandidate, rows: dict[tuple[str, int], dict[str, Any]], brokers: Rows, settings: Settings
) -> None:
    """What lies on offline log dirs goes, and nothing else; a broker with such a dir receives nothing."""
    failed = {row["broker"] for row in brokers if row.get("offline_log_dirs")}
    gone = {
        key: {broker for broker, path in zip(row["replicas"], row["log_dirs"], strict=True) if path is None} & failed
        for key, row in rows.items()
    }
    moved: dict[tuple[str, int], Move] = {move.topic_partition: move for move in plan.candidate.moves}
    for key, move in moved.items():
        assert set(move.removed) == gone[key] - set(settings.brokers_out), f"{key} leaves a log dir that works"
        assert not set(move.added) & failed, f"{key} goes to a broker with a failed log dir"
    if plan.candidate.status == "ok":
        for key, row in rows.items():
            asked = settings.selects(row["topic"]) and not row.get("excluded")
            stays = not asked or matches(row["topic"], settings.pinned_topics)
            assert stays or key in moved or not gone[key] - set(settings.brokers_out), (
                f"{key} stays on a failed log dir"
            )


def _verify_room(
    plan: DescribedCandidate, rows: dict[tuple[str, int], dict[str, Any]], brokers: Rows, settings: Settings
) -> None:
    """No disk and no log dirs that receive end beyond what they may, and no replica is larger than a dir takes."""
    leaving, keep = leaving_of(brokers, settings), settings.disk_headroom
    staying = [row for row in brokers if row["broker"] not in leaving]
    held: Counter[int] = Counter()
    for row in rows.values():
        held.update(dict.fromkeys(row["replicas"], row["size_bytes"] or 0))
    for row in staying:
        broker = row["broker"]
        given = [move.size_bytes for move in plan.candidate.moves if broker in move.added]
        lost = [move.size_bytes for move in plan.candidate.moves if broker in move.removed]
        if not given:
            continue
        end = held[broker] + sum(given) - sum(lost)
        if row.get("disk_capacity_bytes") is not None:
            share = min(1 - keep, settings.relieve_above or 1.0)
            assert end <= max(share * row["disk_capacity_bytes"], held[broker]) * (1 + 1e-9), f"disk of {broker}"
        dirs = [one for one in row.get("log_dirs") or () if one["usable_bytes"] is not None]
        if len(row.get("log_dirs") or ()) > 1 and dirs:
            least = max(0.0, min(one["usable_bytes"] - keep * one["total_bytes"] for one in dirs))
            assert max(given) <= least, f"a replica of {max(given)} bytes for broker {broker}"
            assert end <= held[broker] + len(dirs) * least + 1e-6, f"log dirs of {broker}"


def _verify_limits(moves: tuple[Move, ...], settings: Settings) -> None:
    spent = {
        "max_bytes": sum(move.bytes_to_copy for move in moves),
        "max_leader_changes": sum(move.changes_leader for move in moves),
    }
    for name, amount in spent.items():
        limit = getattr(settings, name)
        assert limit is None or amount <= limit, f"{name}: {amount} of {limit}"


def _verify_batches(moves: tuple[Move, ...], settings: Settings) -> None:
    numbers = sorted({move.batch for move in moves})
    assert numbers == list(range(1, len(numbers) + 1)), "batches are numbered from 1 without gaps"
    for number in numbers:
        batch = [move for move in moves if move.batch == number]
        assert len(batch) <= settings.partitions_per_batch
        assert sum(move.changes_leader for move in batch) <= settings.leader_changes_per_batch
        ends = Counter(("in", broker) for move in batch for broker in move.added)
        ends.update(("out", move.leader) for move in batch for _ in move.added)
        # One partition may need more copies than that; then it shares its brokers with no other.
        alone = max((len(move.added) for move in batch), default=0)
        assert not ends or max(ends.values()) <= max(settings.copies[1], alone)


def _verify_disks_over_time(plan: DescribedCandidate, brokers: Rows, partitions: Rows, settings: Settings) -> None:
    """The disks over time as the batches run, and none beyond both its headroom and what it held before."""
    if plan.disks is None:
        assert plan.candidate.status == "infeasible"
        return
    held: Counter[int] = Counter({row["broker"]: 0 for row in brokers})
    for row in partitions:
        held.update(dict.fromkeys(row["replicas"], row.get("size_bytes") or 0))
    runs = run_batches(plan.candidate.moves, held)
    found = plan.disks
    columns = (found.batch, found.broker, found.peak_bytes, found.after_bytes)
    for batch, broker, peak, after in zip(*(column.tolist() for column in columns), strict=True):
        seen = (runs[batch - 1].peak, runs[batch - 1].after) if batch else (held, held)
        assert (peak, after) == (seen[0][broker], seen[1][broker]), f"batch {batch}, broker {broker}"
    capacity = {row["broker"]: row.get("disk_capacity_bytes") for row in brokers}
    for number, run in enumerate(runs):
        for broker in +run.received:
            if capacity[broker] is None:
                continue
            allowed = max(capacity[broker] * (1 - settings.disk_headroom), min(held[broker], runs[-1].after[broker]))
            assert run.peak[broker] <= allowed * (1 + 1e-6), f"batch {number + 1}, broker {broker}"


def _verify_controller(plan: DescribedCandidate, rows: dict[tuple[str, int], dict[str, Any]]) -> None:
    """No batch makes the controller rewrite more than its budget, unless it is a single partition."""
    moves = [move for move in plan.candidate.moves if not move.is_election]  # which rewrites nothing of this
    costs = {
        number: rewritten_bytes([move for move in moves if move.batch == number], moves, rows)
        for number in {move.batch for move in moves}
    }
    for number, (cost, largest) in costs.items():
        alone = sum(move.batch == number for move in moves) == 1
        assert alone or cost <= controller_bytes.CONTROLLER_BYTES_PER_BATCH, f"batch {number}: {cost} bytes"
        assert largest <= controller_bytes.ZNODE_BYTES, f"batch {number}: a topic's znode has {largest} bytes"
    most = max((cost for cost, _ in costs.values()), default=0)
    # Two commas at most are counted that are not there, for each time that a znode is written.
    assert most <= plan.candidate.summary["controller_bytes"] <= most + 2 * len(moves)


def rewritten_bytes(
    batch: list[Move], moves: Sequence[Move], rows: dict[tuple[str, int], dict[str, Any]]
) -> tuple[int, int]:
    """(half of the bytes that the controller writes and reads for the batch, bytes of the largest topic znode).

    It writes the topic at the start and at the end of each partition, and the request again and again, ever shorter.
    Documents of version 3; lists that move in other batches are as long as they are before or after.
    """
    entries = [{"topic": m.topic_partition[0], "partition": m.topic_partition[1], "replicas": m.after} for m in batch]
    request = _json_bytes({"version": 1, "partitions": entries})
    sizes = []
    for topic in {move.topic_partition.topic for move in batch}:
        lists = {str(key[1]): list(row["replicas"]) for key, row in rows.items() if key[0] == topic}
        adding, removing = {}, {}
        for move in moves:
            if move.topic_partition.topic == topic:
                key = str(move.topic_partition.partition)
                lists[key] = max(lists[key], list(move.after), key=_json_bytes)
        mine = [move for move in batch if move.topic_partition.topic == topic]
        for move in mine:
            key = str(move.topic_partition.partition)
            removed = [broker for broker in move.before if broker not in move.after]
            if move.added or removed:
                lists[key] = [*move.after, *removed]
            adding |= {key: move.added} if move.added else {}
            removing |= {key: removed} if removed else {}
        document = {"version": 3, "topic_id": "x" * 22, "partitions": lists}
        size = _json_bytes({**document, "adding_replicas": adding, "removing_replicas": removing})
        sizes += [size] * len(mine)
    return math.ceil(sum(sizes) + len(batch) * request / 2), max(sizes, default=0)


def _json_bytes(document: object) -> int:
    return len(json.dumps(document, separators=(",", ":")))
