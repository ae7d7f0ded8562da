"""A model of KRaft's controller and its brokers in memory, as Kafka 3.9 and 4.4 have it.

It follows `ReplicationControlManager`, `PartitionChangeBuilder`, `PartitionReassignmentReplicas` and
`PartitionReassignmentRevert`. The recordings in `data/changes` hold it against real controllers. Each broker answers
from its own copy of the metadata, which has applied the controller's log up to an offset of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from support.kraft_model.cluster_metadata import NO_LEADER, Image, Key, Partition, Refused, without

UNKNOWN_TOPIC, INVALID_PARTITIONS, INVALID_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST = 3, 37, 39, 40, 42
NOT_AVAILABLE, NOT_NEEDED, NOTHING_IN_PROGRESS = 80, 84, 85
SET, DELETE, APPEND, SUBTRACT = range(4)  # AlterConfigOp.OpType
THROTTLED_LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
Operation = tuple[str, int, str | None]  # config, what to do, value


class ModelController:
    """`log` has the image after each record of the controllers' log.

    `applied`: each broker's copy, by offset. It acts by its own configs of `taken_over`, the image that it had before.
    """

    def __init__(self, version: str, racks: Mapping[int, str | None], min_in_sync: int = 1) -> None:
        self.version, self.min_in_sync = version, min_in_sync
        number = tuple(int(part) for part in version.split(".")[:2])
        self.ends_early = number >= (4, 3)
        self.keeps_elr = number >= (4, 0)
        self.log = [Image(racks)]
        self.applied, self.taken_over = dict.fromkeys(racks, 0), dict.fromkeys(racks, 0)
        self.epoch, self.leader, self.voters = 1, 1, frozenset({1, 2, 3})
        self._leaving: int | None = None  # a broker that is about to be fenced
        self._ids = itertools.count(1)

    @property
    def image(self) -> Image:
        return self.log[-1]

    @property
    def live(self) -> frozenset[int]:
        return self.image.live

    @property
    def targets(self) -> dict[Key, tuple[int, ...]]:
        """Of every partition that is being moved."""
        return {key: one.target for key, one in self.image.partitions.items() if one.moves}

    # Copies of the metadata.

    def seen_by(self, broker: int) -> Image:
        return self.log[self.applied[broker]]

    def own_config(self, broker: int) -> dict[str, str]:
        return self.log[self.taken_over[broker]].config(f"brokers/{broker}")

    def hear(self, records: int = 1, brokers: Iterable[int] | None = None) -> bool:
        """These brokers apply so many records more; False if they had applied everything."""
        behind = [b for b in (self.live if brokers is None else brokers) if self.applied[b] < len(self.log) - 1]
        for broker in behind:
            self.taken_over[broker] = self.applied[broker]
            self.applied[broker] = min(self.applied[broker] + records, len(self.log) - 1)
        return bool(behind)

    def fill_pause(self) -> None:
        """The controllers write something at least every half second."""
        self._write(replace(self.image))

    def _write(self, image: Image) -> None:
        self.log.append(image)

    def _put(self, key: Key, changed: Partition) -> bool:
        if changed == self.image.partitions[key]:
            return False
        self._write(self.image.having(key, changed))
        return True

    # Quorum and brokers.

    def fail_over(self) -> None:
        """Another voter leads, and writes that it does."""
        others = sorted(self.voters - {self.leader})
        self.epoch, self.leader = self.epoch + 1, others[self.epoch % len(others)]
        self._write(replace(self.image))

    def fence(self, broker: int) -> None:
        """Its session has ended. First it leaves every ISR and leads nothing, then it is fenced."""
        self._leaving = broker
        for key, one in self.image.partitions.items():
            if broker in one.isr or broker == one.leader:
                self._put(key, self._built(one, isr=without(one.isr, {broker})))
        self._leaving = None
        self._write(replace(self.image, fenced=self.image.fenced | {broker}))

    def unfence(self, broker: int) -> None:
        """It is back, and knows what was written meanwhile: a broker is fenced until it has heard it."""
        self._write(replace(self.image, fenced=self.image.fenced - {broker}))
        for key, one in self.image.partitions.items():
            if one.leader == NO_LEADER and broker in one.replicas:
                self._put(key, self._built(one))
        self.applied[broker] = self.taken_over[broker] = len(self.log) - 1

    # What leaders of partitions ask for (AlterPartition).

    def join(self, key: Key, broker: int) -> bool:
        """A follower has caught up. False if it is away, in the ISR, or the partition has no leader."""
        one = self.image.partitions[key]
        able = broker in one.replicas and broker not in one.isr and {broker, one.leader} <= self.live
        return able and self._put(key, self._built(one, isr=(*one.isr, broker)))

    def shrink(self, key: Key, broker: int) -> bool:
        """A follower has fallen behind."""
        one = self.image.partitions[key]
        able = broker in one.isr and broker != one.leader and one.leader in self.live
        return able and self._put(key, self._built(one, isr=without(one.isr, {broker})))

    # Requests.

    def alter(self, key: Key, target: Sequence[int] | None) -> None:
        """AlterPartitionReassignments of one partition; None cancels. Raises Refused."""
        one = self.image.partitions.get(key)
        if one is None:
            raise Refused(UNKNOWN_TOPIC, f"Unable to find a topic or partition {key}.")
        self._put(key, self._cancelled(one) if target is None else self._moved(one, tuple(target)))

    def _moved(self, one: Partition, target: tuple[int, ...]) -> Partition:
        if not target or len(set(target)) < len(target) or min(target) < 0:
            raise Refused(INVALID_ASSIGNMENT, f"The manual partition assignment {target} is not valid.")
        if not set(target) <= self.image.racks.keys():
            raise Refused(INVALID_ASSIGNMENT, f"{target} includes a broker, but no such broker is registered.")
        removing = tuple(sorted(set(one.replicas) - set(target)))
        adding = tuple(sorted(set(target) - set(one.replicas)))
        # What a move in flight was adding or removing stays if this one adds or removes nothing else.
        return self._built(
            one, replicas=(*target, *removing), adding=adding or one.adding, removing=removing or one.removing
        )

    def _cancelled(self, one: Partition) -> Partition:
        if not one.moves:
            raise Refused(NOTHING_IN_PROGRESS, "No partition reassignment is in progress.")
        isr = without(one.isr, one.adding)
        if not isr and one.isr:
            raise Refused(INVALID_ASSIGNMENT, "Reverting would require an unclean leader election.")
        return self._built(one, replicas=without(one.replicas, one.adding), isr=isr, adding=(), removing=())

    def elect(self, key: Key) -> None:
        """The preferred leader. Raises Refused."""
        one = self.image.partitions.get(key)
        if one is None:
            raise Refused(UNKNOWN_TOPIC, f"No such partition as {key}")
        if one.leader == one.replicas[0]:
            raise Refused(NOT_NEEDED, "Leader election not needed.")
        if not self._put(key, self._built(one, preferred=True)):
            raise Refused(NOT_AVAILABLE, "The preferred leader was not available.")

    def create_topic(self, topic: str, lists: Mapping[int, Sequence[int]]) -> None:
        self._write(replace(self.image, topics={**self.image.topics, topic: next(self._ids)}))
        for number, replicas in lists.items():
            self._create((topic, number), tuple(replicas))

    def expand(self, topic: str, lists: Mapping[int, Sequence[int]]) -> None:
        """Adds partitions beside moves in flight. Raises Refused, also for other numbers of replicas than the first
        partition has, with those that leave it.
        """
        if topic not in self.image.topics:
            raise Refused(UNKNOWN_TOPIC, topic)
        if (topic, min(lists)) in self.image.partitions:
            raise Refused(INVALID_PARTITIONS, topic)
        if {len(replicas) for replicas in lists.values()} != {len(self.image.partitions[topic, 0].replicas)}:
            raise Refused(INVALID_ASSIGNMENT, "not consistent with previous partitions")
        for number, replicas in lists.items():
            self._create((topic, number), tuple(replicas))

    def _create(self, key: Key, replicas: tuple[int, ...]) -> None:
        isr = tuple(broker for broker in replicas if broker in self.live)
        self._write(self.image.having(key, Partition(replicas, isr, isr[0] if isr else NO_LEADER)))

    def delete_topic(self, topic: str) -> None:
        """At once, with its config and whatever moves. Raises Refused."""
        if topic not in self.image.topics:
            raise Refused(UNKNOWN_TOPIC, topic)
        now = self.image
        self._write(
            replace(
                now,
                topics={name: one for name, one in now.topics.items() if name != topic},
                partitions={key: one for key, one in now.partitions.items() if key[0] != topic},
                configs={entity: one for entity, one in now.configs.items() if entity != f"topics/{topic}"},
            )
        )

    def change_config(self, entity: str, operations: Sequence[Operation]) -> None:
        """IncrementalAlterConfigs of one resource. Raises Refused, and changes nothing then."""
        kind, _, name = entity.partition("/")
        if kind == "topics" and name not in self.image.topics:
            raise Refused(UNKNOWN_TOPIC, f"The topic '{name}' does not exist.")
        if len({key for key, _, _ in operations}) < len(operations):
            raise Refused(INVALID_REQUEST, "Error due to duplicate config keys")
        now: dict[str, str] = self.image.config(entity)
        changed = dict(now)
        for key, what, value in operations:
            if what == DELETE:
                changed.pop(key, None)
            else:
                changed |= _merged(changed.get(key), key, what, value)
        for key in [key for key in {**now, **changed} if now.get(key) != changed.get(key)]:  # a record each
            now = {one: value for one, value in {**now, key: changed.get(key)}.items() if value is not None}
            self._write(replace(self.image, configs={**self.image.configs, entity: now}))

    # Kafka's PartitionChangeBuilder.

    def _built(
        self,
        one: Partition,
        *,
        isr: tuple[int, ...] | None = None,
        replicas: tuple[int, ...] | None = None,
        adding: tuple[int, ...] | None = None,
        removing: tuple[int, ...] | None = None,
        preferred: bool = False,
    ) -> Partition:
        new = replace(
            one,
            isr=one.isr if isr is None else isr,
            replicas=one.replicas if replicas is None else replicas,
            adding=one.adding if adding is None else adding,
            removing=one.removing if removing is None else removing,
        )
        new = self._with_elr(one, self._completed(new))
        leader = self._leader_of(one, new, preferred)
        if leader != one.leader and leader in new.elr:
            new = replace(new, isr=(leader,), elr=without(new.elr, {leader}))
        if not new.isr and not self.keeps_elr:
            new = replace(new, isr=one.isr)  # the last one stays, though it is away
        raises = leader != one.leader or not set(one.replicas) <= set(new.replicas)
        return replace(new, leader=leader, leader_epoch=one.leader_epoch + raises)

    def _completed(self, new: Partition) -> Partition:
        """The end of a move, where it has come."""
        isr, target = without(new.isr, new.removing), new.target
        if not new.moves or not isr or not target:
            return new
        if self.ends_early and len(new.adding) >= len(new.removing):
            done = set(new.adding) <= set(isr)
        else:
            done = {*target, *(new.adding if self.ends_early else ())} <= set(isr)
        return replace(new, replicas=target, isr=isr, adding=(), removing=()) if done else new

    def _with_elr(self, one: Partition, new: Partition) -> Partition:
        if not self.keeps_elr or len(new.isr) >= self.min_in_sync:
            return replace(new, elr=())
        return replace(new, elr=tuple(sorted({*one.elr, *one.isr} - set(new.isr))))

    def _leader_of(self, one: Partition, new: Partition, preferred: bool) -> int:
        def may_lead(broker: int) -> bool:
            return broker in self.live - {self._leaving} and (broker in new.isr or (not new.isr and broker in new.elr))

        wanted = (new.replicas[0], one.leader) if preferred else (one.leader,)
        return next((broker for broker in (*wanted, *new.replicas) if may_lead(broker)), NO_LEADER)


def _merged(now: str | None, key: str, what: int, value: str | None) -> dict[str, str]:
    """The key's new value, if it gets one."""
    if what == SET:
        return {key: value or ""}
    if key not in THROTTLED_LISTS:
        raise Refused(INVALID_CONFIG, f"Can't append to or subtract from {key}")
    old, some = _parts(now), _parts(value)
    if what == SUBTRACT:
        merged = [one for one in old if one not in some]
    else:
        merged = [*old, *(one for one in some if one not in old)]
        if "*" in merged and len(merged) > 1:
            raise Refused(INVALID_CONFIG, f"Invalid value {merged} for configuration {key}")
    # To take an entry out of a list that is not set leaves an empty list behind.
    return {key: ",".join(merged)} if merged != old or (now is None and what == SUBTRACT) else {}


def _parts(value: str | None) -> list[str]:
    return [part for part in (value or "").split(",") if part]
