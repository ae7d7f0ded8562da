"""Damages our own files: the run's folder, the lease, and the storage that holds them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from faults.strikes.disks import fill
from faults.strikes.scene import Scene, Struck, later

OUTAGE_SECONDS = 10.0


def lose_folder(scene: Scene) -> Struck:
    shutil.rmtree(scene.ours.folder)
    return Struck("run's folder removed")


def lose_lease(scene: Scene) -> Struck:
    shutil.rmtree(_root(scene) / "leases")
    return Struck("leases removed")


def damage_lease(scene: Scene) -> Struck:
    """Cuts short the latest file of every lease."""
    for cluster in (_root(scene) / "leases").iterdir():
        max(cluster.glob("*.json")).write_bytes(b'{"format_version": ')
    return Struck("lease damaged")


def make_read_only(scene: Scene) -> Struck:
    _remount(_root(scene), "ro")
    return Struck("storage read-only", later(OUTAGE_SECONDS, lambda: _remount(_root(scene), "rw")))


def fill_storage(scene: Scene) -> Struck:
    if not _root(scene).is_mount():
        raise RuntimeError(f"{_root(scene)} is not a separate file system, so it was not filled")
    filler = _root(scene) / ".filler"
    fill(filler)
    return Struck("storage full", later(OUTAGE_SECONDS, filler.unlink))


def _root(scene: Scene) -> Path:
    """`runs_url`. The run's folder is connection / run / attempt below it."""
    return scene.ours.folder.parents[2]


def _remount(root: Path, mode: str) -> None:
    done = subprocess.run(["mount", "-o", f"remount,{mode}", str(root)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{root} cannot be made {mode}: {done.stderr.strip()}")
