"""Small separate file systems. A test can fill one, or make it read-only, without harm to others."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TRIES = 100


@contextmanager
def own_file_system(folder: Path, size_bytes: int) -> Iterator[bool]:
    """Makes the folder, and mounts a tmpfs on it if this process may; yields whether it did."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            # Lazily: a process with an open file keeps that file until it ends.
            subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


def leave_no_room(folder: Path) -> None:
    """Makes the file system as small as what it holds, at once; a file that fills it would take seconds to write."""
    for _ in range(_TRIES):  # it never becomes smaller than what it holds, and somebody may write meanwhile
        if resize(folder, shutil.disk_usage(folder).used):
            return
    raise RuntimeError(f"{folder} could not be made smaller")


def resize(folder: Path, size_bytes: int) -> bool:
    """Whether the file system has this size now."""
    command = ["mount", "-o", f"remount,size={size_bytes}", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
