"""Requests that were announced, in ZooKeeper: `/kafka_rebalance/announced-<id>`, one znode for each.

Only what a broker is asked for directly is announced here: copies between its log dirs. A request to move replicas
between brokers is a znode itself, made in one transaction with a check of the fence.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from kafka_rebalance.errors import CorruptZnodeError, LockLostError
from kafka_rebalance.model.lock_owner import Copies, Fence, Intent, LockOwner, decode_copies, encode_copies
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.client import read_children, read_znodes, sync
from kafka_rebalance.zookeeper.cluster_lock import own_acl, read_fence, read_own_fence
from kafka_rebalance.zookeeper.writer import commit, delete_znode, repeat
from kafka_rebalance.zookeeper.znodes import compact_json, parse_object, parse_text, parse_version


def open_intent(client: KazooClient, owner: LockOwner, fence: Fence, copies: Copies) -> tuple[Fence, str]:
    """Announces a request for exactly these copies; returns (the fence that this raises, the announcement's id).

    Raises LockLostError, and writes nothing, if the fence has risen or the run does not hold the cluster.
    """
    name = uuid.uuid4().hex
    path = f"{znodes.ANNOUNCED_PREFIX}{name}"
    data = compact_json({"version": 1, "run": owner.run, "owner": owner.owner, "copies": encode_copies(copies)})
    before = fence.versions.get(znodes.RUN_LOCK_PARENT, -1)

    def attempt() -> Fence:
        own = read_own_fence(client, owner)
        held = own.versions.get(znodes.RUN_LOCK)
        is_made = read_znodes(client, [path])[path] is not None  # by an earlier attempt, whose answer was lost
        if not is_made and (held is None or own.versions[znodes.RUN_LOCK_PARENT] != before):
            raise LockLostError(
                "No further copy was requested: another worker has taken the cluster, requested copies or put "
                "throttles back since this one began. Clear this task if the run is to go on."
            )
        if not is_made and held is not None:
            transaction = client.transaction()
            transaction.check(znodes.RUN_LOCK, held)
            transaction.set_data(znodes.RUN_LOCK_PARENT, b"", before)
            transaction.create(path, data, acl=own_acl(client))
            commit(client, path, transaction)
        made_first = fence.generation.partition("-")[0]
        return Fence({**fence.versions, znodes.RUN_LOCK_PARENT: before + 1}, f"{made_first}-{before + 1:010d}")

    return repeat(path, attempt), name


def end_intent(client: KazooClient, name: str, *, fence: Fence | None = None) -> bool:
    """Deletes the announcement. False, and it stays, if the fence has risen since."""
    path = f"{znodes.ANNOUNCED_PREFIX}{name}"

    def attempt() -> bool:
        sync(client)
        if fence is not None and read_fence(client).generation != fence.generation:
            return False
        if read_znodes(client, [path])[path] is not None:
            with suppress(NoNodeError):
                delete_znode(client, path, 0)
        return True

    return repeat(path, attempt)


def read_open_intents(client: KazooClient) -> list[Intent]:
    """The earliest first. Raises ReadError, CorruptZnodeError."""
    sync(client)
    names = [f"{znodes.RUN_LOCK_PARENT}/{name}" for name in read_children(client, znodes.RUN_LOCK_PARENT)]
    names = [path for path in names if path.startswith(znodes.ANNOUNCED_PREFIX)]
    return sorted(_read(client, names), key=lambda intent: intent.order)


def _read(client: KazooClient, names: list[str]) -> Iterator[Intent]:
    for path, znode in read_znodes(client, names).items():
        if znode is None:
            continue  # it has ended meanwhile
        fields = parse_object(path, znode[0])
        parse_version(path, fields)
        try:
            rows: Any = fields["copies"]
            copies = decode_copies(rows)
        except (KeyError, TypeError, ValueError) as bad:
            raise CorruptZnodeError(f"{path} announces no copies ({bad}). Delete it.") from bad
        run, owner = (parse_text(path, name, fields.get(name)) for name in ("run", "owner"))
        at = datetime.fromtimestamp(znode[1].mtime / 1000, UTC)  # it is written once
        yield Intent(path.removeprefix(znodes.ANNOUNCED_PREFIX), run, owner, 0, at, {}, copies, int(znode[1].czxid))


def read_time(client: KazooClient) -> datetime:
    """Now, by the clock of ZooKeeper's server, which dates the announcements: it writes a znode of no other use."""

    def attempt() -> datetime:
        with suppress(NodeExistsError):
            if read_znodes(client, [znodes.CLOCK])[znodes.CLOCK] is None:
                transaction = client.transaction()
                transaction.create(znodes.CLOCK, b"", acl=own_acl(client))
                commit(client, znodes.CLOCK, transaction)
        with suppress(BadVersionError):
            transaction = client.transaction()
            transaction.set_data(znodes.CLOCK, b"")
            commit(client, znodes.CLOCK, transaction)
        sync(client)
        found = read_znodes(client, [znodes.CLOCK])[znodes.CLOCK]
        if found is None:
            raise NoNodeError(znodes.CLOCK)
        return datetime.fromtimestamp(found[1].mtime / 1000, UTC)

    return repeat(znodes.CLOCK, attempt)
