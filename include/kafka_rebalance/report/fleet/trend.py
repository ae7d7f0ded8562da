"""How far the worst broker was off its share of each resource, night by night."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kafka_rebalance.model.metrics import Metric, noun_of

METRICS = (Metric.DISK, Metric.REPLICAS, Metric.LEADERS, Metric.BYTES_IN, Metric.LEADER_BYTES_OUT)


@dataclass(frozen=True, slots=True)
class Trend:
    """One resource over the checks, oldest first. `skew`: how far the worst broker is off its share."""

    resource: str
    at: tuple[datetime, ...]
    skew: tuple[float, ...]
    limit: float

    @property
    def title(self) -> str:
        return noun_of(self.resource).capitalize()

    @property
    def is_past(self) -> bool:
        return self.skew[-1] > self.limit

    @property
    def _top(self) -> float:
        return max(*self.skew, self.limit) * 1.1 or 1.0

    def _height(self, value: float) -> float:
        return round(28 - 26 * value / self._top, 1)

    @property
    def points(self) -> str:
        """The points of an SVG polyline in a box of 120 by 30, with time to the right."""
        if len(self.skew) == 1:
            return f"2,{self._height(self.skew[0])} 118,{self._height(self.skew[0])}"
        begin, end = self.at[0].timestamp(), self.at[-1].timestamp()
        across = [116 * (moment.timestamp() - begin) / (end - begin or 1.0) + 2 for moment in self.at]
        return " ".join(f"{x:.1f},{self._height(value)}" for x, value in zip(across, self.skew, strict=True))

    @property
    def limit_height(self) -> float:
        return self._height(self.limit)


def trends(observations: Sequence[tuple[datetime, str, float, float]]) -> tuple[Trend, ...]:
    """From (time, resource, skew, limit) in any order: one for each resource, in the order of METRICS."""
    by_resource: dict[str, list[tuple[datetime, float, float]]] = {}
    for at, resource, skew, limit in observations:
        by_resource.setdefault(resource, []).append((at, skew, limit))
    known = [*METRICS, *sorted(set(by_resource) - set(METRICS))]
    return tuple(
        Trend(name, tuple(at for at, _, _ in rows), tuple(skew for _, skew, _ in rows), rows[-1][2])
        for name in known
        if (rows := sorted(by_resource.get(name, ())))
    )
