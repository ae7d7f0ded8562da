"""A process that runs our triggers one after the other, as Airflow's triggerer would, and counts its memory.

`python -m bench.execution.triggerer` reads triggers from stdin, one on each line, and answers with their events. At the
end of stdin it answers with its memory. At first it has imported Airflow alone; the first trigger imports its modules.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self


class Triggerer:
    """The process, as its parent sees it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ
        )
        self.memory: Mapping[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process. Bytes of memory: `before` the first trigger's import, `loaded` with it, `most` since."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self.memory = self._answer()
        finally:
            self._process.kill()
            self._process.wait()

    def fire(self, trigger: Any) -> Mapping[str, Any]:
        """The payload of the trigger's event."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(trigger.serialize()) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Mapping[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("The triggerer ended before it answered.")
        answer: Mapping[str, Any] = json.loads(line)
        return answer


def _memory(name: str) -> int:
    """Bytes of memory of this process: now (`VmRSS`) or at its peak (`VmHWM`)."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


async def _first(trigger: Any) -> Mapping[str, Any]:
    async for event in trigger.run():
        return dict(event.payload)
    raise RuntimeError("The trigger ended without an event.")


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    importlib.import_module("airflow.triggers.base")
    memory = {"before": _memory("VmRSS"), "loaded": 0}
    for line in sys.stdin:
        path, arguments = json.loads(line)
        module, _, name = path.rpartition(".")
        trigger = getattr(importlib.import_module(module), name)(**arguments)
        memory["loaded"] = memory["loaded"] or _memory("VmRSS")
        print(json.dumps(asyncio.run(_first(trigger))), file=answers, flush=True)
    print(json.dumps(memory | {"most": _memory("VmHWM")}), file=answers, flush=True)


if __name__ == "__main__":
    main()
