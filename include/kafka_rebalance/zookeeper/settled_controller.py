"""Whether a cluster has a settled controller: the broker is alive, and two reads in a row find the same controller."""

from __future__ import annotations

from collections.abc import Callable

from kazoo.client import KazooClient

from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.model.cluster_view import Controller, SettledController
from kafka_rebalance.zookeeper.client import read_znodes, sync
from kafka_rebalance.zookeeper.znodes import paths
from kafka_rebalance.zookeeper.znodes.registrations import decode_controller, decode_controller_epoch

EPOCHS_OF_A_STORM = 3  # an ordinary failover between the two reads adds one


def check_controller_stable(client: KazooClient, pause: Callable[[], None]) -> SettledController:
    """The live controller, read twice with `pause` between. Raises ClusterNotReadyError, ReadError.

    If one znode stops every new controller, all brokers resign in turn, tens of times a second, and serve no request.
    During a migration (3.4+), a KRaft controller owns the cluster.
    """
    before = _read_live_controller(client)
    pause()
    after = _read_live_controller(client)
    grown = after.epoch - before.epoch
    if grown > EPOCHS_OF_A_STORM:
        raise ClusterNotReadyError(
            f"The controller epoch grew from {before.epoch} to {after.epoch} between two reads: brokers resign as "
            "controller one after the other. Look for the exception in the controllers' logs. "
            "Usually, Kafka cannot read one znode."
        )
    return SettledController(after, (before.epoch, after.epoch))


def _read_live_controller(client: KazooClient) -> Controller:
    sync(client)
    elected = read_controller(client)
    if elected is None:
        raise ClusterNotReadyError(
            f"There is no controller ({paths.CONTROLLER} is absent). Try again when the brokers have elected one."
        )
    controller, session = elected
    check_not_migrating(controller, "Reassign through the Kafka API instead.")
    registration = read_znodes(client, [paths.broker_path(controller.broker)])[paths.broker_path(controller.broker)]
    # Both znodes are ephemeral. If their sessions differ, another process has registered as this broker.
    if registration is None or registration[1].ephemeralOwner != session:
        raise ClusterNotReadyError(
            f"{paths.CONTROLLER} names broker {controller.broker}, which is not registered in its session. "
            "Try again when the brokers have elected a live one."
        )
    return controller


def check_not_migrating(controller: Controller, remedy: str) -> None:
    """Raises ClusterNotReadyError if a KRaft controller (3.4+) owns the cluster: it takes nothing from ZooKeeper."""
    if controller.kraft_epoch >= 0:
        raise ClusterNotReadyError(
            f"A KRaft controller owns the cluster (epoch {controller.kraft_epoch}): the cluster is being migrated from "
            f"ZooKeeper. {remedy}"
        )


def read_controller(client: KazooClient) -> tuple[Controller, int] | None:
    """The controller, and the session that elected it."""
    znodes = read_znodes(client, [paths.CONTROLLER, paths.CONTROLLER_EPOCH])
    controller, epoch = znodes[paths.CONTROLLER], znodes[paths.CONTROLLER_EPOCH]
    if controller is None:
        return None
    decoded = decode_controller(controller[0], 0 if epoch is None else decode_controller_epoch(epoch[0]))
    return (decoded, controller[1].ephemeralOwner) if decoded.broker >= 0 else None
