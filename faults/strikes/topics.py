"""Changes that somebody else makes to the topic and to throttles while copies are under way."""

from __future__ import annotations

from faults.clusters.fault_cluster import BEFORE, TARGET
from faults.strikes.scene import Scene, Struck, later

# The follower looks at the throttle every 15 seconds, and a look that waits for the broker that stands still takes up
# to 12 of them. It must say within two looks that somebody lifted the throttle.
STOPPED_SECONDS = 40.0
NEW_PARTITIONS = {4: (1, 2, 3), 5: (2, 3, 1)}


def delete(scene: Scene) -> Struck:
    scene.ours.stop_load()
    scene.cluster.request_deletion(scene.case.topic)
    return Struck("topic deleted", lambda: scene.cluster.wait_deleted(scene.case.topic))


def recreate(scene: Scene) -> Struck:
    """Creates the topic again once it is gone. 2.0 deletes a topic only when its reassignment has ended."""
    scene.ours.stop_load()
    scene.cluster.request_deletion(scene.case.topic)

    def create() -> None:
        scene.cluster.wait_deleted(scene.case.topic)
        scene.cluster.local.create_topic(scene.case.topic, BEFORE, {"min.insync.replicas": 2})

    return Struck("topic deleted and created again", create)


def expand(scene: Scene) -> Struck:
    """Adds partitions in the topic's znode, as the tool of 2.0 does. The API refuses it during a reassignment."""
    scene.cluster.add_partitions(scene.case.topic, NEW_PARTITIONS)
    return Struck(f"topic expanded by {len(NEW_PARTITIONS)} partitions")


def lift_throttle(scene: Scene) -> Struck:
    """Removes the rates of every live broker, as `--verify` of a finished reassignment does from 2.6 on.

    The target stands still meanwhile, because without a throttle its copies would end before anybody looks.
    """
    scene.cluster.remove_rates()
    scene.cluster.local.freeze_broker(TARGET)
    thaw = later(STOPPED_SECONDS, lambda: scene.cluster.local.thaw_broker(TARGET))
    return Struck(f"throttle lifted on every broker, and broker {TARGET} frozen for {STOPPED_SECONDS:.0f} s", thaw)
