"""What every user of a machine can see of its processes: their arguments."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

_LOOK_SECONDS = 0.5


class CommandLines:
    """Looks for secrets in all arguments, from the beginning of the `with` block to its end."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = [secret.encode() for secret in secrets]
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.saw_spark = False
        self.telling: set[str] = set()  # names of programs

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ends.wait(_LOOK_SECONDS):
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):  # it has ended
                    arguments = process.read_bytes()
                    self.saw_spark |= b"org.apache.spark.deploy.SparkSubmit" in arguments
                    if any(secret in arguments for secret in self._secrets):
                        self.telling.add(Path(arguments.partition(b"\0")[0].decode(errors="replace")).name)
