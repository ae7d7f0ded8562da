"""Writes the requests of a reassignment. Besides them, we write only topics and configs into Kafka's znodes.

Each write is checked once more here, whoever asks for it. Requests to the controller are created, never set and never
deleted, because the controller watches only their creation. Every function may be called again after it failed. None
leaves half of its work in a harmful condition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.serialization import Create, Delete, SetData, Transaction
from kazoo.security import ACL, OPEN_ACL_UNSAFE

from kafka_rebalance.errors import ApprovalError, ReadError, WriteDeniedError, WriteError
from kafka_rebalance.kafka.znode_limits import JUTE_MAXBUFFER_BYTES
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import AnyView
from kafka_rebalance.model.cluster_writes import Kind, Outcome, note
from kafka_rebalance.model.lock_owner import NO_FENCE, Fence
from kafka_rebalance.model.partition import TopicPartition, replica_list_problem
from kafka_rebalance.moves.move_stage import Stage, stage_in
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.client import LOST, REPLY_SECONDS, exists, read_acl, read_znodes, sync
from kafka_rebalance.zookeeper.reader import read_batch_view
from kafka_rebalance.zookeeper.znodes import decode_election, decode_reassignment, encode_election, encode_reassignment

CHECK_BYTES = 17  # of a check in a transaction, without its path: type, flag, error, the path's length, version
REQUEST_MARGIN_BYTES = 4096  # for the rest of a request's transaction: path, ACL, fence


def create_reassignment(
    client: KazooClient,
    batch: Batch,
    approved_digest: str,
    registered: Collection[int],
    *,
    view: AnyView | None = None,
    fence: Fence = NO_FENCE,
) -> Outcome:
    """Requests the batch's moves from the controller. `registered` are the brokers that are registered now.

    The request is made only if the batch's topics are still as in `view`, on which the caller decided, and if the
    `fence` has not risen since it was read. The request raises the fence. So a worker that was frozen in between writes
    nothing.

    Raises ApprovalError if the batch is not of the approved candidate. Raises WriteError if its shape, a target broker
    or its size forbids it, if another reassignment runs, or if the outcome stays unknown. Success means that the
    request was made. The controller may still drop it, without an error.
    """
    if not approved_digest or batch.candidate_digest != approved_digest:
        raise ApprovalError(
            f"Batch {batch.number} belongs to candidate {batch.candidate_digest[:12]}, but {approved_digest[:12]} was "
            "approved. Start a new Dag run and approve what it proposes."
        )
    targets = {move.topic_partition: move.after for move in batch.moves}
    if len(targets) < len(batch.moves):
        raise WriteError(f"Batch {batch.number} names a partition twice. Start a new Dag run.")
    data = encode_reassignment(targets)
    for topic_partition, replicas in targets.items():
        problem = replica_list_problem(replicas, registered)
        if problem:
            raise WriteError(
                f"{topic_partition}: {problem}; Kafka would wait for it for ever. Batch {batch.number} was not "
                "written. Start the broker, or start a new Dag run that plans without it."
            )

    def is_ours(content: bytes | None) -> bool:
        # Below 2.4 the controller takes finished partitions out of its znode one by one, so ours may be smaller.
        requested = decode_reassignment(content)
        ours = bool(requested) and all(targets.get(key) == replicas for key, replicas in requested.items())
        return ours and _taken_up(client, [move for move in batch.moves if move.topic_partition not in requested])

    return _request(
        client,
        znodes.REASSIGN_PARTITIONS,
        data,
        is_ours=is_ours,
        was_consumed=lambda: _taken_up(client, batch.moves),
        unchanged=_unchanged(client, targets, view, data),
        fence=fence,
        busy=(
            "Another reassignment is running, which is not this run's. Nothing of batch "
            f"{batch.number} was written. Wait until it has ended, then clear this task."
        ),
    )


def _taken_up(client: KazooClient, moves: Sequence[Move]) -> bool:
    """Whether each of these moves is done or in motion towards its target."""
    if not moves:
        return True
    view = read_batch_view(client, [move.topic_partition for move in moves])
    stages = {stage_in(move, view) for move in moves}
    return Stage.REQUESTED not in stages and all(stage.has_left_a_trace for stage in stages)


def _unchanged(
    client: KazooClient, partitions: Iterable[TopicPartition], view: AnyView | None, request: bytes
) -> dict[str, int]:
    """{path: version} of the topics' znodes, as many as fit beside the request.

    The controller writes a topic's znode whenever it moves one of its partitions. So these versions show a request that
    was made and ended meanwhile, and moves that somebody else began.
    """
    known = {tp[0]: view.partitions.get(tp) for tp in sorted(partitions)} if view is not None else {}
    unchanged, room = {}, JUTE_MAXBUFFER_BYTES - len(request) - REQUEST_MARGIN_BYTES
    for topic, partition in known.items():
        path = znodes.topic_path(topic)
        room -= CHECK_BYTES + len((client.chroot + path).encode())
        if partition is not None and partition.topic_znode_version is not None and room >= 0:
            unchanged[path] = partition.topic_znode_version
    return unchanged


def create_election(
    client: KazooClient, partitions: Collection[TopicPartition], view: AnyView, *, fence: Fence = NO_FENCE
) -> Outcome:
    """Requests the election of these partitions' preferred leaders. `view` is the cluster now.

    The request is made only if the `fence` has not risen since it was read; the request does not raise it.

    Raises WriteError for a partition that does not exist: on 2.0, one such partition blocks all elections until the
    next failover. Raises it also for a partition that is being deleted, or reassigned: its first replica is not its
    preferred leader meanwhile.
    """
    data = encode_election(partitions)
    for topic_partition in sorted(partitions):
        problem = _election_problem(topic_partition, view)
        if problem:
            raise WriteError(f"{TopicPartition(*topic_partition)} {problem}. No election was requested.")
    wanted = frozenset(partitions)
    return _request(
        client,
        znodes.PREFERRED_ELECTION,
        data,
        is_ours=lambda content: decode_election(content) == wanted,
        was_consumed=lambda: False,  # to elect again is harmless
        unchanged={**_unchanged(client, wanted, view, data), **fence.versions},
        busy="Another preferred leader election is running. Ours was not requested. Wait until it has ended and retry.",
    )


def _election_problem(topic_partition: TopicPartition, view: AnyView) -> str | None:
    partition = view.partitions.get(topic_partition)
    if partition is None:
        return "does not exist"
    if partition.in_motion or topic_partition in (view.reassignments or {}):
        return "is being reassigned"
    if topic_partition[0] in view.deletions:
        return "belongs to a topic that is being deleted"
    return None


def _request(
    client: KazooClient,
    path: str,
    data: bytes,
    *,
    is_ours: Callable[[bytes | None], bool],
    was_consumed: Callable[[], bool],
    unchanged: Mapping[str, int],
    fence: Fence = NO_FENCE,
    busy: str,
) -> Outcome:
    """Creates the znode, and finds out what happened if the connection was lost meanwhile.

    Nothing is written unless the znodes in `unchanged`, {path: version}, and in `fence` are as they were read. The
    write raises the fence.
    """
    acl = acl_like(client, znodes.DELETE_TOPICS)
    lost: Exception | None = None
    for _ in range(ATTEMPTS):
        if lost is not None:
            znode = _read_back(client, path, lost)
            if was_consumed() if znode is None else is_ours(znode[0]):
                return Outcome.ALREADY_THERE
        try:
            _create_if(client, path, data, acl, unchanged, fence.versions)
            return Outcome.CREATED
        except NodeExistsError as there:
            znode = _read_back(client, path, there)
            if znode is not None:
                if is_ours(znode[0]):
                    return Outcome.ALREADY_THERE
                raise WriteError(f"{path} exists already. {busy}") from there
            lost = there  # it is gone since: the controller has consumed it
        except BadVersionError as changed:
            if lost is not None:
                break  # perhaps our own request changed it and left no other trace
            raise WriteError(
                f"{path}: topics of the request, or the lock of the run, changed between reading and writing. "
                "Clear this task: it reads again and goes on."
            ) from changed
        except NoNodeError as missing:
            if exists(client, path.rpartition("/")[0]):
                raise WriteError(
                    f"{path}: a topic of the request, or the lock of the run, is gone. Clear this "
                    "task: it reads again and says which."
                ) from missing
            raise WriteError(
                f"{path}: its parent does not exist, so Kafka has not started below this chroot. "
                "Correct the chroot in the Airflow connection."
            ) from missing
        except LOST as connection_lost:
            lost = connection_lost
    raise WriteError(
        f"{path}: the connection was lost, so whether the request was made is unknown. "
        "Clear this task when ZooKeeper answers: it finds out and goes on."
    ) from lost


def _create_if(
    client: KazooClient,
    path: str,
    data: bytes,
    acl: Sequence[ACL],
    unchanged: Mapping[str, int],
    fence: Mapping[str, int],
) -> None:
    """One transaction, so that nothing can come between the check and the write."""
    transaction = client.transaction()
    add_checks(transaction, unchanged)
    for checked, version in fence.items():
        if checked == znodes.RUN_LOCK_PARENT:
            # Raised, because a worker that began to lift a throttle before this request does not know of its copies.
            transaction.set_data(checked, b"", version)
        else:
            transaction.check(checked, version)
    transaction.create(path, data, acl=list(acl))
    commit(client, path, transaction)


def _read_back(client: KazooClient, path: str, cause: Exception) -> tuple[bytes | None, object] | None:
    try:
        sync(client)
        return read_znodes(client, [path])[path]
    except ReadError as unreadable:
        raise WriteError(
            f"{path}: whether the request was made is unknown ({type(cause).__name__}), and ZooKeeper cannot be read. "
            "Clear this task when ZooKeeper answers: it finds out and goes on."
        ) from unreadable


# Writes to ZooKeeper: bounded in time and size, with the ACL that fits the cluster.
#
# `BadVersionError`, `NodeExistsError`, `NoNodeError` and `client.LOST` come through as they are: only the caller knows
# what they mean. Everything else is a `WriteError`.


_MARGIN_BYTES = 64
_CALLS = {Create: "create", SetData: "set", Delete: "delete"}
ATTEMPTS = 5
# Something may have changed meanwhile, or the outcome is unknown: the caller reads again.
CHANGED = (BadVersionError, NodeExistsError, NoNodeError, *LOST)

T = TypeVar("T")


def create_znode(client: KazooClient, path: str, data: bytes, acl: Sequence[ACL]) -> None:
    """Creates a persistent znode."""
    transaction = client.transaction()
    transaction.create(path, data, acl=list(acl))
    commit(client, path, transaction)


def delete_znode(client: KazooClient, path: str, version: int) -> None:
    """Deletes exactly the version that was read."""
    transaction = client.transaction()
    transaction.delete(path, version)
    commit(client, path, transaction)


def commit(client: KazooClient, path: str, transaction: TransactionRequest) -> None:
    """Makes all of the transaction's writes or none of them. `path` names it in errors."""
    check_fits(path, transaction)
    try:
        results = transaction.commit_async().get(timeout=REPLY_SECONDS)
        failures = [result for result in results if isinstance(result, KazooException)]
        # One operation has failed. ZooKeeper rolled back those before it and did not try those after it.
        failures.sort(key=lambda failure: isinstance(failure, RolledBackError | RuntimeInconsistency))
        if failures:
            raise failures[0]
    except LOST:
        _note(client, transaction, is_certain=False)
        raise
    except CHANGED:
        raise
    except NoAuthError as refused:
        raise WriteDeniedError(
            f"{path}: ZooKeeper does not let this client write it. It was not written. Put the brokers' user into the "
            "Airflow connection, or give the connection's user the same rights on this znode."
        ) from refused
    except KazooException as failed:
        raise WriteError(
            f"{path}: ZooKeeper refused the write ({type(failed).__name__}). It was not written."
        ) from failed
    _note(client, transaction)


def repeat(path: str, attempt: Callable[[], T]) -> T:
    """The result of the attempt, which is repeated if somebody changed what it read, or the connection was lost.

    Each attempt must start by reading, so that it finds out what the one before has done. Raises WriteError.
    """
    lost = False
    failure: Exception | None = None
    for _ in range(ATTEMPTS):
        try:
            return attempt()
        except CHANGED as changed:
            lost, failure = lost or isinstance(changed, LOST), changed
        except ReadError as unreadable:
            if not lost:
                raise
            failure = unreadable
            break
    if lost:
        state = "the connection was lost, so whether it was written is unknown"
        remedy = "Clear this task when ZooKeeper answers: it finds out and goes on."
    else:
        state = f"it was not written, because somebody else changed it during each of {ATTEMPTS} attempts"
        remedy = "Clear this task to try again."
    raise WriteError(f"{path}: {state} ({type(failure).__name__}). {remedy}") from failure


def _note(client: KazooClient, transaction: TransactionRequest, *, is_certain: bool = True) -> None:
    """Notes the writes that were made, or perhaps made."""
    for operation in transaction.operations:
        call = _CALLS.get(type(operation))
        change = _change(call, operation.path.removeprefix(client.chroot)) if call else None
        if change is not None:
            note(*change, is_certain=is_certain)


def _change(call: str, path: str) -> tuple[Kind, str] | None:
    """What the write changes; None if it means nothing by itself, as the fence and the notifications of brokers."""
    if path == znodes.RUN_LOCK:
        return {"create": (Kind.LOCK_TAKEN, ""), "delete": (Kind.LOCK_GIVEN_BACK, "")}.get(call)
    if path == znodes.REASSIGN_PARTITIONS:
        return (Kind.REASSIGNMENT, "") if call == "create" else None
    if path == znodes.PREFERRED_ELECTION:
        return Kind.ELECTION, ""
    if path == znodes.CONTROLLER:
        return Kind.CONTROLLER, ""
    for parent, kind in (
        (znodes.TOPICS, Kind.TOPIC),
        (znodes.DELETE_TOPICS, Kind.DELETION),
        (znodes.CONFIG, Kind.CONFIG),
    ):
        if path.startswith(f"{parent}/") and not path.startswith(znodes.CONFIG_CHANGES):
            return kind, path.removeprefix(f"{parent}/")
    return None


def acl_like(client: KazooClient, sibling: str) -> list[ACL]:
    """The ACL of one of Kafka's znodes, for a new znode beside it; open if that one does not exist.

    The controller must be able to rewrite and delete what we create. Where Kafka protects its znodes
    (`zookeeper.set.acl`), nobody else may. Raises ReadError.
    """
    return read_acl(client, sibling) or list(OPEN_ACL_UNSAFE)


def check_fits(path: str, transaction: TransactionRequest) -> None:
    """Raises WriteError if the request is too large.

    ZooKeeper answers a request beyond `jute.maxbuffer` by closing the connection. The client would see a lost
    connection, and would try again for ever.
    """
    header_bytes = 4 + 4  # xid, type
    size_bytes = header_bytes + len(Transaction(transaction.operations).serialize())
    limit = JUTE_MAXBUFFER_BYTES - _MARGIN_BYTES
    if size_bytes > limit:
        raise WriteError(
            f"{path}: the request would be {size_bytes:,} bytes, but ZooKeeper takes {limit:,} (jute.maxbuffer). "
            "It was not written. Use smaller batches, or fewer partitions in a topic."
        )


def add_checks(transaction: TransactionRequest, unchanged: Mapping[str, int]) -> None:
    """Adds to a transaction that these znodes must still have these versions: {path: version}."""
    for path, version in unchanged.items():
        transaction.check(path, version)
