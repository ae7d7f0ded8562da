"""The clock, set by a test: that of the worker, and with it that of the cluster. The windows themselves are real."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kafka_rebalance.model.recurring_window import Opening, openings, read_recurring_window
from kafka_rebalance.run import checks_before_write

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=seconds) for seconds in (1, 60, 3600, 86_400))


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now

    @classmethod
    def set_in(cls, monkeypatch: pytest.MonkeyPatch) -> Clock:
        made, compare = cls(), checks_before_write.check_clock
        monkeypatch.setattr("kafka_rebalance.clock.utc_now", made)
        monkeypatch.setattr(
            checks_before_write, "check_clock", lambda ours, clusters: compare(ours, clusters + made.ahead())
        )
        return made

    def ahead(self) -> timedelta:
        return self.now - datetime.now(UTC)

    def window_around(self, days: str = "daily") -> tuple[str, Opening, Opening]:
        """A window from an hour ago until an hour from now; this opening and the next one."""
        text = f"{days} {self.now - HOUR:%H:%M}-{self.now + HOUR:%H:%M} UTC"
        now, following, *_ = openings([read_recurring_window(text)], self.now)
        return text, now, following
