"""The permissions that docs/install.md asks for, as rules of Kafka."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AclBinding, AclOperation
from confluent_kafka.admin import ResourceType as AclResource

from support.kafka.permissions import CLUSTER, permission
from support.kafka.secured_cluster import USER

_INSTALL = Path(__file__).parents[3] / "docs/install.md"
_OBJECTS = {
    "the cluster": CLUSTER,
    "all topics": (AclResource.TOPIC, "*"),
    "topic `__kafka_rebalance`": (AclResource.TOPIC, "__kafka_rebalance"),
    "transactional id `kafka-rebalance`": (AclResource.TRANSACTIONAL_ID, "kafka-rebalance"),
}
_OPERATIONS = {
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Alter": AclOperation.ALTER,
    "AlterConfigs": AclOperation.ALTER_CONFIGS,
    "Create": AclOperation.CREATE,
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
}


class Row(NamedTuple):
    permission: str
    on: str
    needed_for: str  # `plan` or `move`
    mode: str  # `both`, `with ZooKeeper` or `without ZooKeeper`

    @property
    def rule(self) -> AclBinding:
        kind, name = _OBJECTS[self.on]
        return permission(kind, name, _OPERATIONS[self.permission], USER)


@cache
def documented_rows() -> tuple[Row, ...]:
    """The rows for a rebalance."""
    section = _INSTALL.read_text(encoding="utf-8").partition("| permission | on |")[2].partition("\n\n")[0]
    rows = [re.split(r" *\| *", line.strip("| ")) for line in section.splitlines()[2:]]
    found = tuple(Row(*row[:4]) for row in rows if row[2] in ("plan", "move"))
    assert found
    return found


def rules_to_plan(*, with_zookeeper: bool) -> list[AclBinding]:
    other = "without ZooKeeper" if with_zookeeper else "with ZooKeeper"
    return [row.rule for row in documented_rows() if row.needed_for == "plan" and row.mode != other]


def rules_to_move() -> list[AclBinding]:
    """Without ZooKeeper, in addition. With ZooKeeper a move is a matter of znodes."""
    return [row.rule for row in documented_rows() if row.needed_for == "move"]
