"""Small file systems of their own, so that a disk can be full, and storage read-only, for those alone who use it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def own_file_system(folder: Path, size_bytes: int) -> Iterator[bool]:
    """Makes the folder, with a tmpfs in it where this process may mount one; gives whether it has."""
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
            # Lazily: whoever has a file open keeps it until it ends.
            subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
