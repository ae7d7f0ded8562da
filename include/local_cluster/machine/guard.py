"""Run as a process of its own: ends a cluster when the Python process that started it is gone, kill -9 included.

The kernel closes the pipe on standard input when that process ends, however it ends. Everything of the cluster is in
this process's group. Arguments: the folders to remove. Standard library only, started without site-packages.
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
        # Out of the group first, so that somebody is left to remove the folders.
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
