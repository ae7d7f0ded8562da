"""Reads for pages, in threads of their own: each page chooses how long it waits, and nothing is read twice at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar

from cachetools import TTLCache

Answer = TypeVar("Answer")


class TooManyReads(Exception):
    """No further read may begin now."""


class Reading(Future[Answer]):
    """One read: a future that knows when it began."""

    def __init__(self) -> None:
        super().__init__()
        self._began_at = time.monotonic()

    def ended_within(self, seconds: float) -> bool:
        """Whether the read takes no longer than this from its beginning. Waits until that is known."""
        try:
            self.exception(max(0.0, self._began_at + seconds - time.monotonic()))
        except TimeoutError:
            return False
        return True


class Reads(Generic[Answer]):
    """One read at a time of each name, and `at_once` of all names. An answer is kept for `kept_seconds`."""

    def __init__(self, at_once: float = float("inf"), kept_seconds: float = 0.0) -> None:
        self._at_once = at_once
        self._under_way: dict[str, Reading[Answer]] = {}
        self._ended: TTLCache[str, Reading[Answer], float] = TTLCache(float("inf"), kept_seconds)
        self._guard = threading.Lock()

    def ask(self, name: str, read: Callable[[], Answer]) -> Reading[Answer]:
        """The read of that name: the one under way, the last one, or a new one. Raises TooManyReads."""
        with self._guard:
            earlier = self._under_way.get(name) or self._ended.get(name)
            if earlier is not None:
                return earlier
            if len(self._under_way) >= self._at_once:
                raise TooManyReads
            begun = self._under_way[name] = Reading()
        # Not an executor's thread: Python waits for those at its end, and a read that hangs must not stop that.
        threading.Thread(target=self._run, args=(name, read, begun), name=f"read {name}", daemon=True).start()
        return begun

    def _run(self, name: str, read: Callable[[], Answer], begun: Reading[Answer]) -> None:
        try:
            end = partial(begun.set_result, read())
        except Exception as failed:
            end = partial(begun.set_exception, failed)
        with self._guard:
            self._ended[name] = self._under_way.pop(name)
        end()
