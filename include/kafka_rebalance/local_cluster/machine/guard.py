"""A process of its own, which ends a cluster when the Python process that started it ends, also by kill -9.

When that process ends, the kernel closes the pipe on this process's standard input. All processes of the cluster are
in this process's group. The arguments are folders to remove. Standard library only: it starts without site-packages.
"""

import contextlib
import os
import shutil
import signal
import sys
import time

GIVE_UP_SECONDS = 10


def main() -> None:
    group = os.getpgrp()
    while os.read(sys.stdin.fileno(), 4096):
        pass
    if os.fork() == 0:
        # First leave the group, so that this process survives to remove the folders.
        os.setpgid(0, 0)
        os.killpg(group, signal.SIGKILL)
        give_up = time.monotonic() + GIVE_UP_SECONDS
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < give_up:
                os.killpg(group, 0)
                time.sleep(0.02)
        for folder in sys.argv[1:]:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)
    signal.pause()


if __name__ == "__main__":
    main()
