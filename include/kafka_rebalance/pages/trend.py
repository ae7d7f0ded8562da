"""How far the worst broker was off its share of each resource, night by night."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kafka_rebalance.model.metrics import Metric, noun_of

NIGHTS = 30  # days of the ledger in the small plots
METRICS = (Metric.DISK, Metric.REPLICAS, Metric.LEADERS, Metric.BYTES_IN, Metric.LEADER_BYTES_OUT)
WORST = "imbalance"  # of all resources, as the ledger's column is called


@dataclass(frozen=True, slots=True)
class Trend:
    """One resource over the checks of NIGHTS days until `until`, oldest first.

    `skew`: how far the worst broker is off its share.
    """

    resource: str
    at: tuple[datetime, ...]
    skew: tuple[float, ...]
    limit: float
    until: datetime

    @property
    def title(self) -> str:
        return "Worst resource" if self.resource == WORST else noun_of(self.resource).capitalize()

    @property
    def is_past(self) -> bool:
        return self.skew[-1] > self.limit

    @property
    def _top(self) -> float:
        return max(*self.skew, self.limit) * 1.1 or 1.0

    def _height(self, value: float) -> float:
        return round(28 - 26 * value / self._top, 1)

    def _across(self, moment: datetime) -> float:
        share = 1 - (self.until - moment) / timedelta(days=NIGHTS)
        return round(2 + 116 * min(1.0, max(0.0, share)), 1)

    @property
    def points(self) -> str:
        """The points of an SVG polyline in a box of 120 by 30. Its width is the same NIGHTS days for all clusters."""
        found = zip(self.at, self.skew, strict=True)
        return " ".join(f"{self._across(at)},{self._height(value)}" for at, value in found)

    @property
    def last_point(self) -> tuple[float, float]:
        return self._across(self.at[-1]), self._height(self.skew[-1])

    @property
    def limit_height(self) -> float:
        return self._height(self.limit)


def trends(observations: Sequence[tuple[datetime, str, float, float]], until: datetime) -> tuple[Trend, ...]:
    """From (time, resource, skew, limit) in any order: one for each resource, in the order of METRICS, WORST first."""
    by_resource: dict[str, list[tuple[datetime, float, float]]] = {}
    for at, resource, skew, limit in observations:
        by_resource.setdefault(resource, []).append((at, skew, limit))
    known = [WORST, *METRICS]
    known += sorted(set(by_resource) - set(known))
    return tuple(
        Trend(name, tuple(at for at, _, _ in rows), tuple(skew for _, skew, _ in rows), rows[-1][2], until)
        for name in known
        if (rows := sorted(by_resource.get(name, ())))
    )
