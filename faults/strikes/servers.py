"""Kills or stops brokers, ZooKeeper servers and our own processes."""

from __future__ import annotations

import time

from faults.clusters.fault_cluster import BROKERS, SESSION_SECONDS, TARGET, ZOOKEEPERS
from faults.strikes.scene import Scene, Struck, later

OUTAGE_SECONDS = 3.0  # of ZooKeeper
FROZEN_SECONDS = SESSION_SECONDS + 3.0  # the broker is first registered without answering, then its session ends too
# Shorter than the brokers' sessions, so that ZooKeeper does not answer again and again but no session ends.
STOPPED_SECONDS, RUNNING_SECONDS, STOPS = 2.5, 1.0, 5


def kill_ours(scene: Scene) -> Struck:
    return Struck("killed", scene.ours.kill)


def kill_everything(scene: Scene) -> Struck:
    local = scene.cluster.local
    for broker in BROKERS:
        local.kill_broker(broker)
    for server in ZOOKEEPERS if scene.cluster.has_zookeeper else ():
        local.kill_zookeeper(server)
    scene.ours.kill()

    def start() -> None:
        if scene.cluster.has_zookeeper:
            local.start_zookeeper(*ZOOKEEPERS)
        local.start_broker(*BROKERS)

    return Struck("everything killed", later(OUTAGE_SECONDS, start))


def freeze_target(scene: Scene) -> Struck:
    cluster = scene.cluster
    cluster.local.freeze_broker(TARGET)

    def thaw() -> None:
        time.sleep(2)
        registered = TARGET in cluster.registered()
        time.sleep(FROZEN_SECONDS - 2)
        cluster.local.thaw_broker(TARGET)
        if not registered:
            raise RuntimeError(f"broker {TARGET} was not registered while it was frozen, as this case needs")

    return Struck(f"broker {TARGET} frozen for {FROZEN_SECONDS:.0f} s", thaw)


def slow_zookeeper(scene: Scene) -> Struck:
    local = scene.cluster.local

    def stop_and_go() -> None:
        for _ in range(STOPS):
            for server in ZOOKEEPERS:
                local.freeze_zookeeper(server)
            time.sleep(STOPPED_SECONDS)
            for server in ZOOKEEPERS:
                local.thaw_zookeeper(server)
            time.sleep(RUNNING_SECONDS)

    return Struck(f"ZooKeeper stopped {STOPS} times for {STOPPED_SECONDS} s", stop_and_go)


def kill_zookeepers(scene: Scene, *servers: int) -> Struck:
    local = scene.cluster.local
    for server in servers:
        local.kill_zookeeper(server)
    what = f"ZooKeeper {', '.join(map(str, servers))} killed"
    return Struck(what, later(OUTAGE_SECONDS, lambda: local.start_zookeeper(*servers)))


def kill_controllers(scene: Scene, *nodes: int) -> Struck:
    local = scene.cluster.local
    for node in nodes:
        local.kill_controller(node)

    def start() -> None:
        for node in nodes:
            local.start_controller(node)

    return Struck(f"controller {', '.join(map(str, nodes))} killed", later(OUTAGE_SECONDS, start))


def kill_brokers(scene: Scene, *brokers: int) -> Struck:
    local = scene.cluster.local
    for broker in brokers:
        local.kill_broker(broker)
    return Struck(f"broker {', '.join(map(str, brokers))} killed", lambda: local.start_broker(*brokers))
