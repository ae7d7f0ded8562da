"""rates.json: of each candidate the least throttle, and what the networks of its brokers carry already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_rebalance.documents.json_files import RATES, JsonFile, omitted


@dataclass(frozen=True, slots=True)
class NetworkUse:
    """What one broker's network carries without us, the way of it that has less left."""

    broker: int
    way: str  # in | out
    network_bytes_per_second: float
    used_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class NetworksKnown:
    """Those with least left, and of how many of the candidate's brokers it is known."""

    brokers: int
    known: int
    tightest: tuple[NetworkUse, ...]


@dataclass(frozen=True, slots=True)
class CandidateRates:
    """`network` None: no traffic was measured. The last two are there where the throttle was to be found by itself."""

    least_bytes_per_second: int
    reason: str
    network: NetworksKnown | None = None
    auto_bytes_per_second: int | None = omitted()
    why: str | None = omitted()


@dataclass(frozen=True, slots=True)
class Rates:
    candidates: Mapping[str, CandidateRates]


RATES_FILE = JsonFile(RATES, Rates)
