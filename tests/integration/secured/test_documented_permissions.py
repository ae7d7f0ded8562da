"""The permission tables of docs/install.md: without any one row the run names it, and all of them are enough."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AclOperation
from confluent_kafka.admin import ResourceType as AclResource
from kazoo.client import KazooClient
from kazoo.security import ACL, make_acl

from kafka_rebalance.admin.groups import read_groups
from kafka_rebalance.admin.log_dirs import alter_log_dirs, read_log_dirs
from kafka_rebalance.admin.reassignments import cancel_reassignments
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ReadError, WriteDeniedError
from kafka_rebalance.kafka.topics import LOCK_TOPIC
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition
from support.kafka.documented_permissions import Row, documented_rows, rules_to_move, rules_to_plan
from support.kafka.permissions import CLUSTER, forbid, permission
from support.kafka.secured_cluster import PASSWORD, USER, SecuredCluster, secured_cluster
from support.runs.rebalance_run import InProcessRun
from support.waiting import wait

pytestmark = pytest.mark.long

WITH, WITHOUT = "with ZooKeeper", "without ZooKeeper"


@pytest.fixture(scope="module")
def with_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with secured_cluster("3.9.2", tmp_path_factory.mktemp("security"), brokers=3) as running:
        running.local.create_topic("orders", {0: (1, 2)})
        yield running


@pytest.fixture(scope="module")
def without_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with secured_cluster("4.4.0", tmp_path_factory.mktemp("security"), kraft=True, brokers=3) as running:
        running.local.create_topic("orders", {0: (1, 2)})
        yield running


@pytest.fixture
def make_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., InProcessRun]:
    def make(cluster: LocalCluster, connection: dict[str, Any]) -> InProcessRun:
        return InProcessRun(tmp_path, cluster, monkeypatch, connection=connection)

    return make


def plan(run: InProcessRun, after: tuple[int, ...]) -> list[str]:
    """What the run says that this connection may not do."""
    run.plan_lists("orders", {0: after})
    snapshot = json_files.read_json(run.folder, json_files.SNAPSHOT)
    return [f"{one['subject']}: {one['problem']}" for one in snapshot.get("missing_rights", ())]


def carry_out(run: InProcessRun, after: tuple[int, ...]) -> None:
    assert plan(run, after) == []
    assert run.carry_out("given")["passed"] is True


def told(run: InProcessRun, row: Row) -> bool:
    """Whether planning is refused and says which permission on what is missing."""
    try:
        plan(run, (1, 3))
    except (AirflowFailException, ReadError) as refused:
        text = str(refused)
        assert PASSWORD not in text
        return row.permission in text and row.on.replace("`", "").removeprefix("topic ") in text
    return False


def to_plan(mode: str) -> list[Any]:
    other = WITHOUT if mode == WITH else WITH
    rows = [row for row in documented_rows() if row.needed_for == "plan" and row.mode != other]
    return [pytest.param(row, id=f"{row.permission} on {row.on}") for row in rows]


TO_MOVE = [
    pytest.param(row, id=f"{row.permission} on {row.on}")
    for row in documented_rows()
    if row.needed_for == "move" and row.permission != "Create"
]


@contextmanager
def permitted(secured: SecuredCluster, *rules: Any) -> Iterator[None]:
    secured.permit(*rules)
    try:
        yield
    finally:
        secured.forbid_all()


@pytest.mark.parametrize("row", to_plan(WITH))
def test_with_zookeeper_a_plan_without_a_row_is_refused(
    with_zookeeper: SecuredCluster, make_run: Callable[..., InProcessRun], row: Row
) -> None:
    run = make_run(with_zookeeper.local, with_zookeeper.connection())
    with permitted(with_zookeeper, *rules_to_plan(with_zookeeper=True)):
        assert plan(run, (1, 3)) == []
        forbid(with_zookeeper.superuser, row.rule)
        wait("the permission is named", lambda: told(run, row))


def test_who_may_only_plan_is_told_every_row_of_a_move(
    without_zookeeper: SecuredCluster, make_run: Callable[..., InProcessRun]
) -> None:
    run = make_run(without_zookeeper.local, without_zookeeper.connection())
    with permitted(without_zookeeper, *rules_to_plan(with_zookeeper=False)):
        said = "\n".join(plan(run, (1, 3)))
    assert {"Alter", "AlterConfigs", "Create"} == set(re.findall(r"lacks (\w+)", said)), said
    assert f"topic {LOCK_TOPIC}: the Kafka user lacks Create" in said


@pytest.fixture(scope="module")
def after_a_move(without_zookeeper: SecuredCluster, tmp_path_factory: pytest.TempPathFactory) -> SecuredCluster:
    """A cluster that has the topic of the lock, made by a user with all rows together."""
    with (
        permitted(without_zookeeper, *rules_to_plan(with_zookeeper=False), *rules_to_move()),
        pytest.MonkeyPatch.context() as patch,
    ):
        folder = tmp_path_factory.mktemp("first")
        run = InProcessRun(folder, without_zookeeper.local, patch, connection=without_zookeeper.connection())
        carry_out(run, (1, 3))
        carry_out(run, (1, 2))
    return without_zookeeper


@pytest.mark.parametrize("row", to_plan(WITHOUT))
def test_without_zookeeper_a_plan_without_a_row_is_refused(
    after_a_move: SecuredCluster, make_run: Callable[..., InProcessRun], row: Row
) -> None:
    run = make_run(after_a_move.local, after_a_move.connection())
    with permitted(after_a_move, *rules_to_plan(with_zookeeper=False)):
        assert plan(run, (1, 3))
        forbid(after_a_move.superuser, row.rule)
        wait("the permission is named", lambda: told(run, row))


@pytest.mark.parametrize("row", TO_MOVE)
def test_a_row_of_a_move_that_is_missing_is_told_before_anybody_is_asked(
    after_a_move: SecuredCluster, make_run: Callable[..., InProcessRun], row: Row
) -> None:
    run = make_run(after_a_move.local, after_a_move.connection())
    with permitted(after_a_move, *rules_to_plan(with_zookeeper=False), *rules_to_move()):
        wait("nothing is missing", lambda: plan(run, (1, 3)) == [])
        forbid(after_a_move.superuser, row.rule)
        on = row.on.replace("`", "")
        wait(
            "the right is named",
            lambda: any(one.startswith(on) and f"lacks {row.permission}," in one for one in plan(run, (1, 3))),
        )


ZNODES = {
    "/": ("create",),
    "/admin": ("create",),
    "/config/changes": ("create",),
    "/config/brokers": ("read", "create", "write"),
    "/config/topics/orders": ("write",),
}


@pytest.fixture
def zookeeper(with_zookeeper: SecuredCluster) -> Iterator[KazooClient]:
    client = KazooClient(with_zookeeper.local.zookeeper, **with_zookeeper.security.kazoo_options)
    client.start()
    before = {path: client.get_acls(path)[0] for path in ZNODES}
    # Whoever may read `/` may create there, in ZooKeeper as it comes.
    protected = [make_acl("sasl", "kafka", all=True), make_acl("world", "anyone", read=True)]
    client.set_acls("/", protected)
    yield client
    for path, acl in before.items():
        client.set_acls(path, acl)
    client.stop()
    client.close()


def give(client: KazooClient, rights: dict[str, tuple[str, ...]]) -> None:
    """Rights of an own user, beside those of the brokers' user."""
    for path, granted in rights.items():
        others: list[ACL] = [one for one in client.get_acls(path)[0] if one.id.id != USER]
        client.set_acls(path, [*others, make_acl("sasl", USER, **dict.fromkeys(granted, True))])


def test_the_znodes_of_the_table_are_those_of_this_test() -> None:
    text = (Path(__file__).parents[3] / "docs/install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z, ]+) \| `(/[^`]*)`[^|]*\|", text.partition("| right | on |")[2], re.MULTILINE)
    assert {path.replace("<topic>", "orders"): tuple(rights.split(", ")) for rights, path in rows} == ZNODES


def test_a_user_of_its_own_needs_every_right_of_the_table_and_no_other(
    with_zookeeper: SecuredCluster, zookeeper: KazooClient, make_run: Callable[..., InProcessRun]
) -> None:
    run = make_run(with_zookeeper.local, {**with_zookeeper.connection(), "login": USER, "password": PASSWORD})
    with permitted(with_zookeeper, *rules_to_plan(with_zookeeper=True)):
        for path, rights in ZNODES.items():
            for right in rights:
                if right == "read":
                    continue  # that is a matter of reading: see test_rights_before_approval
                give(zookeeper, {**ZNODES, path: tuple(one for one in rights if one != right)})
                missing = plan(run, (1, 3))
                assert missing, (path, right)
                assert all(one.startswith(f"{path}: this ZooKeeper user may not") for one in missing), missing
        give(zookeeper, ZNODES)
        carry_out(run, (1, 3))
        carry_out(run, (1, 2))


def test_with_zookeeper_a_cancel_needs_alter_on_the_cluster(with_zookeeper: SecuredCluster) -> None:
    kafka = KafkaConnection(with_zookeeper.servers("SASL_SSL"), with_zookeeper.kafka_config())
    at_rest = {TopicPartition("orders", 0)}
    with permitted(with_zookeeper, *rules_to_plan(with_zookeeper=True)):
        with pytest.raises(WriteDeniedError, match="needs Alter on the cluster"):
            cancel_reassignments(kafka, at_rest)
        with_zookeeper.permit(permission(*CLUSTER, AclOperation.ALTER, USER))
        wait("it may cancel", lambda: may(lambda: cancel_reassignments(kafka, at_rest)))


def test_copies_between_log_dirs_need_to_alter_the_cluster(with_zookeeper: SecuredCluster) -> None:
    """To the log dir in which the replica lies, which changes nothing where it is allowed."""
    kafka = KafkaConnection(with_zookeeper.servers("SASL_SSL"), with_zookeeper.kafka_config())
    at_rest = TopicPartition("orders", 0)

    def copy() -> dict[TopicPartition, str]:
        path = read_log_dirs(kafka, [1]).paths[at_rest][1]
        with open_wire(kafka) as wire:
            return alter_log_dirs(wire, 1, {at_rest: path}, held={at_rest}, log_dirs={path})

    with permitted(with_zookeeper, *rules_to_plan(with_zookeeper=True)):
        with pytest.raises(WriteDeniedError, match="needs Alter on the cluster"):
            copy()
        with_zookeeper.permit(permission(*CLUSTER, AclOperation.ALTER, USER))
        wait("it may copy", lambda: may(copy))
        assert copy() == {}


def test_a_forecast_needs_to_describe_consumer_groups(with_zookeeper: SecuredCluster) -> None:
    kafka = KafkaConnection(with_zookeeper.servers("SASL_SSL"), with_zookeeper.kafka_config())
    reader = Consumer({"bootstrap.servers": with_zookeeper.local.bootstrap_servers, "group.id": "readers"})
    reader.commit(offsets=[Position("orders", 0, 0)], asynchronous=False)
    reader.close()
    with permitted(with_zookeeper, *rules_to_plan(with_zookeeper=True)):
        denied = read_groups(kafka, "orders", [0])
        assert "Grant the Kafka user Describe on group readers" in [finding.remedy for finding in denied.unread]
        with_zookeeper.permit(permission(AclResource.GROUP, "*", AclOperation.DESCRIBE, USER))
        wait("it may read groups", lambda: not read_groups(kafka, "orders", [0]).unread)
        found = read_groups(kafka, "orders", [0])
        assert ([group.group for group in found.groups], found.unread) == (["readers"], ())


def may(work: Callable[[], object]) -> bool:
    """Brokers hear of new rules a moment later."""
    try:
        work()
    except (ReadError, WriteDeniedError):
        return False
    return True
