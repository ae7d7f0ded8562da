"""The loads that a plan makes even between brokers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Metric(StrEnum):
    """A load of brokers, in the order of the tables' rows. Files hold these values."""

    REPLICAS = "replicas"
    DISK = "disk"
    BYTES_IN = "bytes_in"
    LEADERS = "leaders"
    LEADER_BYTES_OUT = "leader_bytes_out"

    @property
    def noun(self) -> str:
        """The words of a sentence, as in `its share of bytes on disk`."""
        return _NOUNS[self]

    @property
    def heading(self) -> str:
        return self.noun.capitalize()

    @property
    def is_count(self) -> bool:
        """Whether its unit is replicas, not bytes."""
        return self in (Metric.REPLICAS, Metric.LEADERS)


_NOUNS: Mapping[str, str] = {
    Metric.REPLICAS: "replicas",
    Metric.DISK: "bytes on disk",
    Metric.BYTES_IN: "bytes in",
    Metric.LEADERS: "leaders",
    Metric.LEADER_BYTES_OUT: "bytes out of leaders",
}


def noun_of(name: str) -> str:
    """The noun of a metric in a file. A metric of a later version keeps its name."""
    return _NOUNS.get(name, name)
