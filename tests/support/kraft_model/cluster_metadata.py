"""What KRaft's controllers write to their log: each record makes an image of the cluster out of the one before."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

Key = tuple[str, int]
NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition's registration. `elr`: replicas that may lead although they are not in the ISR (4.x)."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()

    @property
    def moves(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        return without(self.replicas, self.removing)


@dataclass(frozen=True, slots=True)
class Image:
    """The cluster after one record. Configs are dynamic ones, by `topics/T` and `brokers/N`."""

    racks: Mapping[int, str | None]  # of registered brokers
    fenced: frozenset[int] = frozenset()
    topics: Mapping[str, int] = field(default_factory=dict)  # the topic's id
    partitions: Mapping[Key, Partition] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def live(self) -> frozenset[int]:
        return frozenset(self.racks) - self.fenced

    def having(self, key: Key, partition: Partition) -> Self:
        return replace(self, partitions={**self.partitions, key: partition})

    def config(self, entity: str) -> dict[str, str]:
        return dict(self.configs.get(entity, {}))

    def of_topic(self, topic: str) -> dict[int, Partition]:
        return {number: one for (name, number), one in sorted(self.partitions.items()) if name == topic}


class Refused(Exception):
    """Kafka's error code, and its text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


def without(several: tuple[int, ...], gone: Container[int]) -> tuple[int, ...]:
    return tuple(one for one in several if one not in gone)
