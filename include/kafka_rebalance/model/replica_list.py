"""Hard rules of a replica list. Each rule returns the reason it is broken, or None."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence


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
