"""A clock that stands still, and goes on where somebody sleeps: for documents that are compared byte by byte.

It takes the place of `time`, `datetime` and `secrets` wherever a module has them under a name, so that no test has to
say which modules look at the clock.
"""

from __future__ import annotations

import importlib
import pkgutil
import secrets
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from types import SimpleNamespace
from typing import Any

import pytest

import kafka_rebalance

BEGIN = datetime(2026, 5, 4, 2, 0, tzinfo=UTC)
STEP_SECONDS = 2.0  # what the shortest sleep takes
OUTSIDE = (  # of the tests' own modules, those that look at the clock
    "support.runs.asked_run",
    "support.runs.cancel_run",
    "support.runs.rebalance_run",
    "support.zookeeper.fake_zookeeper",
)
NOT_IMPORTED = ("kafka_rebalance.spark",)  # needs a Java runtime to be of use


class Clock:
    """Takes the place of the module `time`: seconds since 1970, for every kind of clock."""

    def __init__(self) -> None:
        self.now = BEGIN.timestamp()
        self.meanwhile: Callable[[], object] = lambda: None  # what happens while somebody sleeps
        self.time = self.monotonic = self.perf_counter = self.process_time = lambda: self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, STEP_SECONDS)
        self.meanwhile()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class _Times(type(datetime)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)


def stop_clocks(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """From now on the product's modules see this clock, and draw the same secrets each time."""
    clock = Clock()

    class Stopped(datetime, metaclass=_Times):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(clock.now, tz)

    drawn = SimpleNamespace(token_hex=lambda count: "c0ffee42" * (count // 4))
    instead: dict[int, Any] = {id(datetime): Stopped, id(time): clock, id(secrets): drawn}
    instead |= {id(getattr(time, name)): getattr(clock, name) for name in ("time", "monotonic", "sleep")}
    _import_everything()
    for name, module in list(sys.modules.items()):
        if name.split(".", maxsplit=1)[0] == "kafka_rebalance" or name in OUTSIDE:
            for key, value in list(vars(module).items()):
                if id(value) in instead:
                    monkeypatch.setattr(module, key, instead[id(value)])
    return clock


def _import_everything() -> None:
    """A module that is imported later would see the real clock."""
    for found in pkgutil.walk_packages(kafka_rebalance.__path__, "kafka_rebalance."):
        if not found.name.startswith(NOT_IMPORTED):
            importlib.import_module(found.name)
