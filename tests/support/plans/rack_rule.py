"""The rack rule of one replica list, written out a second time for what the planner computes with arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence


def rack_rule_problem(
    replicas: Sequence[int], racks: Mapping[int, str | None], *, share: Collection[int] | None = None
) -> str | None:
    """Why the list breaks the rack rule, or None. With `more_replicas_than_racks`, `share` are the brokers that stay.

    The rule (Kafka's rack-aware assignment, KIP-36): with `n` racks, up to `n` replicas sit on distinct racks, and
    from `n` replicas on every rack holds one. Brokers without a rack count as one rack together; a cluster in which no
    broker has one has no rack rule. If racks may `share`, no rack holds two replicas more than another one that has a
    broker for one more.
    """
    if all(rack is None for rack in racks.values()):
        return None
    used = Counter(racks[broker] for broker in replicas if broker in racks)
    if share is not None:
        room = Counter(racks[broker] for broker in share)
        too_many = [rack for rack in used if used[rack] > room[rack]]
        pairs = [(x, y) for x in room for y in room if used[x] - used[y] > 1 and used[y] < room[y]]
        is_even = used.total() == len(replicas) and not too_many and not pairs
        return None if is_even else f"of {len(replicas)} replicas the racks hold {used}"
    wanted = min(len(replicas), len(set(racks.values())))
    if len(used) >= wanted:
        return None
    crowded = ", ".join(
        f"{'no rack' if rack is None else rack} holds {count}"
        for rack, count in sorted(used.items(), key=lambda one: one[0] or "")
        if count > 1
    )
    return f"{len(replicas)} replicas use {len(used)} of {wanted} possible racks" + (f" ({crowded})" if crowded else "")
