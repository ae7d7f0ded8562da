"""The judge of clusters without ZooKeeper can fail: it names how the product is broken on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.admin import configs, reassignments
from kafka_rebalance.admin.cluster_lock import TopicLock
from kafka_rebalance.cluster.with_admin_api import AdminApiCluster
from kafka_rebalance.kafka.throttles import FOLLOWER_REPLICAS
from kafka_rebalance.rebalance import request_batch, verify
from kafka_rebalance.run import approved_plan, inputs
from kafka_rebalance.run.run_folder import open_run_folder
from kafka_rebalance.throttle import hold_throttle, release_throttle
from kafka_rebalance.throttle.janitor import look_after_lease
from support.histories.process import Process
from support.kraft_model.model_controller import APPEND, DELETE
from support.kraft_model.model_world import VERSIONS, ModelWorld


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelWorld]:
    with pytest.MonkeyPatch.context() as patched:
        yield ModelWorld(tmp_path_factory.mktemp("world"), patched)


@pytest.fixture(params=VERSIONS)
def world(made: ModelWorld, request: pytest.FixtureRequest) -> ModelWorld:
    made.load(str(request.param))
    return made


def first(world: ModelWorld) -> str:
    return next(iter(world.runs))


def take(world: ModelWorld, kind: str, *arguments: Any, **process: Any) -> tuple[str, Any]:
    return world.take(first(world), kind, Process(first(world), **process), *arguments)


def begin(world: ModelWorld) -> None:
    """The first moves are under way."""
    assert take(world, "hold")[0] == "ok"
    assert take(world, "request")[0] == "ok"
    world.controller.hear(1000)
    assert world.controller.targets


def test_a_request_that_is_not_announced(world: ModelWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    assert take(world, "hold")[0] == "ok"
    monkeypatch.setattr(TopicLock, "open_intent", lambda self, owner, fence, targets, batch: (fence, "none"))
    with pytest.raises(AssertionError, match="was not announced"):
        take(world, "request")


def test_a_request_that_goes_out_long_after_its_announcement(
    world: ModelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert take(world, "hold")[0] == "ok"
    real = reassignments.request_moves

    def late(*arguments: Any, not_later_than: float, **options: Any) -> Any:
        world.seconds += 60.0
        return real(*arguments, not_later_than=not_later_than + 1e9, **options)

    monkeypatch.setattr(reassignments, "request_moves", late)
    with pytest.raises(AssertionError, match="sent 60 s after its announcement"):
        take(world, "request")


def test_another_target_than_was_approved(world: ModelWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    assert take(world, "hold")[0] == "ok"
    real = AdminApiCluster.request_moves

    def elsewhere(self: AdminApiCluster, batch: Any, *arguments: Any, **options: Any) -> Any:
        turned = tuple(replace(move, after=move.after[::-1]) for move in batch.moves)
        return real(self, replace(batch, moves=turned), *arguments, **options)

    monkeypatch.setattr(AdminApiCluster, "request_moves", elsewhere)
    with pytest.raises(AssertionError, match="was not approved"):
        take(world, "request")


def test_another_target_for_a_partition_in_flight(world: ModelWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    assert take(world, "hold")[0] == "ok"
    real = reassignments.request_moves

    def although_it_moves(wire: Any, targets: Any, **options: Any) -> Any:
        world.controller.alter(("orders", 0), [1, 3])  # approved is [2, 3]; by whom does not matter
        return real(wire, targets, **options)

    monkeypatch.setattr(reassignments, "request_moves", although_it_moves)
    monkeypatch.setattr(reassignments, "read_targets", lambda _: {})
    with pytest.raises(AssertionError, match="is on its way to"):
        take(world, "request")


def test_configs_that_are_written_without_a_look_at_the_fence(
    world: ModelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AdminApiCluster, "_check_fence", lambda *_: None)
    with pytest.raises(AssertionError, match="without another look at the fence"):
        take(world, "hold")


def test_moves_whose_throttle_is_not_in_force(world: ModelWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    assert take(world, "hold")[0] == "ok"
    monkeypatch.setattr(request_batch, "check_throttle_in_force", lambda *_: None)
    monkeypatch.setattr(
        request_batch, "set_for_batch", lambda kept, folder, owner, *_: kept.cluster.lock.raise_held(owner)
    )
    world.controller.change_config("topics/orders", [(FOLLOWER_REPLICAS, DELETE, None)])
    with pytest.raises(AssertionError, match="are not throttled"):
        take(world, "request")


def test_a_run_that_takes_back_its_own_moves(world: ModelWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(world)

    def all_of_them(self: AdminApiCluster, *_: Any) -> Any:
        return reassignments.cancel_moves(self._wire, reassignments.read_targets(self._wire))

    monkeypatch.setattr(AdminApiCluster, "take_back_late_requests", all_of_them)
    with pytest.raises(AssertionError, match="is what the run itself has requested"):
        take(world, "request")


def test_a_throttle_that_is_taken_off_a_copy(world: ModelWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(world)
    assert take(world, "release")[0] == "refused"
    monkeypatch.setattr(release_throttle, "copying_of", lambda *_: frozenset())
    with pytest.raises(AssertionError, match=r"is gone while .* copies"):
        take(world, "release")


def test_entries_of_somebody_else_that_go_with_ours(world: ModelWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    assert take(world, "hold")[0] == "ok"
    world.controller.change_config("topics/orders", [(FOLLOWER_REPLICAS, APPEND, "9:1")])
    world.foreign["topics/orders"] = {(FOLLOWER_REPLICAS, "9:1")}
    monkeypatch.setattr(configs, "_list_changes", lambda topic, key, *_: ([(key, configs._Do.DELETE, None)], []))
    with pytest.raises(AssertionError, match="of somebody else are gone"):
        take(world, "release")


def test_a_run_that_is_verified_before_its_end(world: ModelWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(world)
    monkeypatch.setattr(verify, "write_checks", lambda *_, **__: SimpleNamespace(passed=True, warnings=()))
    with pytest.raises(AssertionError, match=r"is verified, and .* is not there"):
        take(world, "verify")


def test_a_throttle_that_is_set_late_and_stays(world: ModelWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(first(world))
    assert world.take(first(world), "hold", process)[0] == "ok"
    number = -1 - [what for what, _ in process.written].index("config")
    for room in (hold_throttle, look_after_lease):
        monkeypatch.setattr(room, "put_back_late", lambda _: ())
    world.load(world.version)
    take(world, "hold", mishaps={number: "killed after"}, meanwhile={number: [lambda: take(world, "release")]})
    world.take("janitor", "sweep", Process("janitor"), 0.0)
    assert world.own_throttle()


def test_an_approval_that_does_not_count(world: ModelWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.act("policy_changes", 0)
    assert take(world, "hold")[0] == "refused"
    monkeypatch.setattr(inputs, "check_policy_unchanged", lambda *_: None)
    with pytest.raises(AssertionError, match="under a policy that was not approved"):
        take(world, "hold")


def test_the_papers_of_another_run(world: ModelWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    other = list(world.runs)[1]
    assert take(world, "hold", papers_of=other)[0] == "refused"
    monkeypatch.setattr(
        approved_plan, "open_own_folder", lambda deployment, url, started, nonce: open_run_folder(deployment, url)
    )
    with pytest.raises(AssertionError, match=f"by the files of {other}"):
        take(world, "hold", papers_of=other)
