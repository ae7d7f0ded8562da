"""Fills the target broker's disk, or takes away one of its log dirs while the broker lives."""

from __future__ import annotations

import contextlib
import resource
import shutil
from pathlib import Path

from faults.clusters.fault_cluster import SESSION_SECONDS, TARGET
from faults.clusters.file_systems import leave_no_room, resize
from faults.strikes.scene import Scene, Struck, later

FULL_SECONDS = 5.0
# Without ZooKeeper a broker that ended itself stays registered until its session ends. With it, its znode goes at once.
FENCED_SECONDS = SESSION_SECONDS + 5.0
# The follower must say within 15 seconds that the log dir is gone.
FAILED_SECONDS = 20.0


def fill_disk(scene: Scene) -> Struck:
    """Leaves no room in the target's own file system. If it has none, forbids the broker's process to let files grow.

    Both log dirs fail at the next write, and a broker without a log dir ends itself.
    """
    cluster = scene.cluster
    disk = cluster.disk(TARGET)
    whole = shutil.disk_usage(disk).total
    if disk.is_mount():
        leave_no_room(disk)
        what = f"the disk of broker {TARGET} is full"
    else:
        resource.prlimit(cluster.pid(TARGET), resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        what = f"no file of broker {TARGET} may grow (RLIMIT_FSIZE)"

    def make_room() -> None:
        if disk.is_mount():
            resize(disk, whole)
        cluster.restart(TARGET)

    return Struck(what, later(FULL_SECONDS if cluster.has_zookeeper else FENCED_SECONDS, make_room))


def fail_log_dir(scene: Scene) -> Struck:
    """Moves away the log dir with most replicas of the topic, so that the broker's next checkpoint there fails."""
    cluster = scene.cluster
    log_dir = max(cluster.log_dirs(TARGET), key=lambda one: len(list(one.glob(f"{scene.case.topic}-[0-9]"))))
    aside = log_dir.with_name(f"{log_dir.name}.aside")
    log_dir.rename(aside)

    def mend() -> None:
        aside.rename(log_dir)
        cluster.restart(TARGET)

    return Struck(f"log dir {log_dir.name} of broker {TARGET} is gone", later(FAILED_SECONDS, mend))


def fill(filler: Path) -> None:
    """Fills the file until its file system has no room."""
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass
