"""A small plan's throttle, as it is taken and as the cluster's configs look after a write."""

from __future__ import annotations

from typing import Any

from kafka_rebalance.throttle.put_back import take_lease
from support.kafka.small_clusters import DIGEST, move

LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
MOVES = [move("t-0", [1, 2], [2, 3]), move("t-1", [2, 1], [1, 2])]
RATE = 10_000_000


def lease(current: Any = None, moves: Any = MOVES, rate: Any = RATE) -> Any:
    return take_lease("run-1", DIGEST, moves, rate, current or {})


def applied(configs: Any, changes: Any) -> Any:
    """The configs after a merge of the changes, as the writer makes them."""
    after = {entity: dict(values) for entity, values in configs.items()}
    for entity, values in changes.items():
        for key, value in values.items():
            if value is None:
                after.get(entity, {}).pop(key, None)
            else:
                after.setdefault(entity, {})[key] = value
    return {entity: values for entity, values in after.items() if values}
