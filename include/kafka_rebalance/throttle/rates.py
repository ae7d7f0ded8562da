"""rates.json: each candidate's least throttle, and what the networks of its brokers carry already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_rebalance.documents.json_files import RATES, JsonFile, omitted


@dataclass(frozen=True, slots=True)
class NetworkUse:
    """What one broker's network carries without us, in the direction that has less left."""

    broker: int
    way: str  # in | out
    network_bytes_per_second: float
    used_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class NetworksKnown:
    """`tightest`: the networks with least left. `known`: for how many of the candidate's `brokers` we know the use."""

    brokers: int
    known: int
    tightest: tuple[NetworkUse, ...]


@dataclass(frozen=True, slots=True)
class CandidateRates:
    """`network` is None if no traffic was measured. The last two exist if the throttle was `auto`."""

    least_bytes_per_second: int
    reason: str
    network: NetworksKnown | None = None
    auto_bytes_per_second: int | None = omitted()
    why: str | None = omitted()


@dataclass(frozen=True, slots=True)
class Rates:
    candidates: Mapping[str, CandidateRates]


RATES_FILE = JsonFile(RATES, Rates)
