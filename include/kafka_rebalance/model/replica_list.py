"""Hard rules of a replica list. Each rule returns the reason it is broken, or None."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence


def replica_list_problem(replicas: Sequence[object], registered: Collection[int] | None = None) -> str | None:
    """Why this list must not reach Kafka, or None.

    An empty list destroys the partition, a duplicate silently lowers its redundancy, and an id that is not an
    integer costs the cluster its controller (seen on 2.0.1 and 2.8.2). An unregistered broker is waited for for ever.
    """
    if not replicas:
        return "the replica list is empty"
    wrong = [broker for broker in replicas if type(broker) is not int or broker < 0]
    if wrong:
        return f"broker ids must be non-negative integers, not {', '.join(map(repr, wrong))}"
    repeated = sorted({broker for broker, count in Counter(replicas).items() if count > 1})  # type: ignore[type-var]
    if repeated:
        return f"broker {', '.join(map(str, repeated))} is listed more than once"
    if registered is not None:
        unknown = [broker for broker in replicas if broker not in registered]
        if unknown:
            return f"broker {', '.join(map(str, unknown))} is not registered"
    return None


def rack_rule_problem(replicas: Sequence[int], racks: Mapping[int, str | None]) -> str | None:
    """Why the list breaks the rack rule, or None.

    The rule (Kafka's rack-aware assignment, KIP-36): with `n` racks, up to `n` replicas sit on distinct racks, and
    from `n` replicas on every rack holds one. Brokers without a rack count as one rack together; a cluster in which no
    broker has one has no rack rule.
    """
    if all(rack is None for rack in racks.values()):
        return None
    used = Counter(racks[broker] for broker in replicas if broker in racks)
    wanted = min(len(replicas), len(set(racks.values())))
    if len(used) >= wanted:
        return None
    crowded = ", ".join(
        f"{'no rack' if rack is None else rack} holds {count}"
        for rack, count in sorted(used.items(), key=lambda one: one[0] or "")
        if count > 1
    )
    return f"{len(replicas)} replicas use {len(used)} of {wanted} possible racks" + (f" ({crowded})" if crowded else "")
