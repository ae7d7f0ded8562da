"""Our own processes. A server that has imported everything once forks them, so that each starts in milliseconds."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import Any
from unittest.mock import patch

from faults.ours.clock import CLOCK_VARIABLE, shift_clock

ROOT = Path(__file__).parents[2]


class Step:
    """One process that runs a step."""

    def __init__(self, process: Any, outcome: Path) -> None:
        self._process, self._outcome = process, outcome

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()

    def wait(self, seconds: float = 180, meanwhile: Callable[[], None] = lambda: None) -> dict[str, Any] | None:
        """The step's outcome; None if the process was killed before it wrote one. Calls `meanwhile` every second."""
        give_up = time.monotonic() + seconds
        while not self._ended_within(min(1, max(0, give_up - time.monotonic()))):
            if time.monotonic() > give_up:
                self._process.kill()
                raise TimeoutError(f"{self._outcome.stem} has not ended within {seconds:.0f} s; it was killed")
            meanwhile()
        return json.loads(self._outcome.read_text(encoding="utf-8")) if self._outcome.exists() else None

    def _ended_within(self, seconds: float) -> bool:
        self._process.join(seconds)
        return not self._process.is_alive()


class Triggerer:
    """A process that follows one batch after the other, as Airflow's does. A new one takes its place only if a fault
    has killed it or has changed its clock.
    """

    def __init__(self) -> None:
        self.started = 0  # processes, one after the other
        self.followed: list[tuple[Any, ...]] = []  # what each batch was followed with
        self._process: Any = None
        self._clock = "0"

    @property
    def pid(self) -> int | None:
        """Of the process; None if none lives."""
        return self._process.pid if self._process is not None and self._process.is_alive() else None

    def start(self, arguments: Sequence[Any], outcome: Path) -> Step:
        environment = dict(arguments[3])
        clock = environment.pop(CLOCK_VARIABLE, "0")
        if clock != self._clock:
            self.end()
        if self.pid is None:
            self._begin(clock)
        self.followed.append((*arguments[:3], environment, *arguments[4:]))
        self._ours.send(self.followed[-1])
        return _Followed(self._process, outcome, self._ours)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()

    def _begin(self, clock: str) -> None:
        context = forking_context()
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, int(clock)), daemon=True)
        self._process.start()
        theirs.close()
        self._clock, self.started = clock, self.started + 1


class _Followed(Step):
    """One batch that the triggerer follows."""

    def __init__(self, process: Any, outcome: Path, ours: Any) -> None:
        super().__init__(process, outcome)
        self._ours = ours

    def _ended_within(self, seconds: float) -> bool:
        if not self._ours.poll(seconds):
            return False
        try:
            self._ours.recv()
        except (EOFError, ConnectionResetError):  # it was killed
            self._process.join()
        return True


class Processes:
    """Starts processes with this environment. Their logs and outcomes go into `folder`.

    With a `triggerer`, that one process follows every batch.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], triggerer: Triggerer | None = None) -> None:
        self.folder, self._environment, self._triggerer = folder, dict(environment), triggerer
        self._numbers = itertools.count(1)
        self.context = forking_context()

    def shift_clock(self, seconds: int) -> None:
        """Shift the clock of every process that starts from now on."""
        self._environment[CLOCK_VARIABLE] = str(seconds)

    def start(self, step: str, state: Mapping[str, Any], killed: Mapping[str, Any] | None = None) -> Step:
        """Start a step of `product.STEPS`. `killed` says after how many writes, and how long after, it is killed."""
        outcome = self.folder / f"{next(self._numbers):02}-{step}.json"
        arguments = (step, dict(state), str(outcome), dict(self._environment), killed)
        if step == "follow" and self._triggerer is not None:
            return self._triggerer.start(arguments, outcome)
        process = self.context.Process(target=_run, args=arguments, daemon=True)
        process.start()
        return Step(process, outcome)

    def call(self, step: str, state: Mapping[str, Any]) -> Any:
        """The step's value. Raises RuntimeError with the step's trace if it failed."""
        outcome = self.start(step, state).wait()
        if outcome is None or outcome["state"] != "done":
            raise RuntimeError(f"{step} failed before the fault: {(outcome or {}).get('trace')}")
        return outcome["value"]


def forking_context() -> Any:
    """Its server has imported everything once, and forks our processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["faults.ours.product", "faults.load"])
    path = os.environ.get("PYTHONPATH")
    folders = [str(ROOT / "include"), str(ROOT), *([path] if path else [])]
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(folders)):
        forkserver.ensure_running()
    return context


def _serve(connection: Any, clock: int) -> None:
    from faults.ours import product

    shift_clock(clock)
    with suppress(EOFError):
        while True:
            product.run(*connection.recv())
            connection.send("ended")


def _run(*arguments: Any) -> None:
    # Imported here, in the new process, which has the module already. In the parent the import would take seconds.
    from faults.ours import product

    product.run(*arguments)
