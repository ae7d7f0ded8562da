"""The clock that decides whether a window is open, set by a test. The windows themselves are real."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kafka_rebalance.model.recurring_window import Opening, openings, read_recurring_window

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=seconds) for seconds in (1, 60, 3600, 86_400))


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now

    @classmethod
    def set_in(cls, monkeypatch: pytest.MonkeyPatch) -> Clock:
        made = cls()
        monkeypatch.setattr("kafka_rebalance.clock.utc_now", made)
        return made

    def window_around(self, days: str = "daily") -> tuple[str, Opening, Opening]:
        """A window from an hour ago until an hour from now; this opening and the next one."""
        text = f"{days} {self.now - HOUR:%H:%M}-{self.now + HOUR:%H:%M} UTC"
        now, following, *_ = openings([read_recurring_window(text)], self.now)
        return text, now, following
