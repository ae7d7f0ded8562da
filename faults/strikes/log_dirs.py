"""A second tool meddles with a replica that our run copies between log dirs, or its broker restarts."""

from __future__ import annotations

from faults.clusters.fault_cluster import COPYING
from faults.clusters.replica_folders import alter, coming, lying
from faults.strikes.scene import Scene, Struck


def cancel(scene: Scene) -> Struck:
    """Asks for the log dir in which the replica lies: so a broker cancels a copy."""
    replica, lies_in, _ = _copied(scene)
    alter(scene.cluster, scene.case.topic, {replica: lies_in})
    return Struck(f"copy of partition {replica[0]} on broker {COPYING} cancelled")


def send_elsewhere(scene: Scene) -> Struck:
    replica, lies_in, comes_to = _copied(scene)
    (third,) = {"a", "b", "c"} - {lies_in, comes_to}
    alter(scene.cluster, scene.case.topic, {replica: third})
    return Struck(f"partition {replica[0]} on broker {COPYING} sent to {third} instead of {comes_to}")


def restart(scene: Scene) -> Struck:
    local = scene.cluster.local
    local.stop_broker(COPYING)
    return Struck(f"broker {COPYING} restarted", lambda: local.start_broker(COPYING))


def _copied(scene: Scene) -> tuple[tuple[int, int], str, str]:
    """A replica that the broker copies, the log dir in which it lies, and the one to which its copy comes."""
    topic = scene.case.topic
    replica, folder = next((one, to) for one, to in coming(scene.cluster, topic).items() if one[1] == COPYING)
    return replica, lying(scene.cluster, topic)[replica], folder.parent.name
