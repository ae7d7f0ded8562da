"""The matrix as data: which fault strikes when, on which version of Kafka, and how its run must end."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from kafka_rebalance.local_cluster.jars.locked_jars import KRAFT_VERSIONS, VERSIONS

_KRAFT = "-kraft"
WITHOUT_ZOOKEEPER = tuple(f"{version}{_KRAFT}" for version in KRAFT_VERSIONS)
EVERY_VERSION = (*VERSIONS, *WITHOUT_ZOOKEEPER)
WITHOUT_LOG_DIRS = "2.0.1"  # it loses log dirs between which replicas were moved, so the product refuses such a run


class Fault(StrEnum):
    """The fault. `KINDS` says in words what happens. Every kill is a kill -9."""

    TARGET = "target"  # the broker that receives the copies
    LEADER = "leader"  # a broker from which copies are read
    CONTROLLER = "controller"
    ZOOKEEPER = "zookeeper"  # every server of the ensemble
    ZOOKEEPER_ONE = "zookeeper-one"  # the leader of the ensemble
    QUORUM = "quorum"  # every controller, where controllers are no brokers
    QUORUM_LEADER = "quorum-leader"  # the one of them that is active
    RACK = "rack"  # one of its brokers leads partitions that move away
    FROZEN = "frozen"  # the target stays registered and answers nothing
    WORKER = "worker"  # the process that runs our tasks
    TRIGGERER = "triggerer"  # the process that follows a batch
    EVERYTHING = "everything"
    SLOW_ZOOKEEPER = "slow-zookeeper"
    FULL_DISK = "full-disk"
    FAILED_LOG_DIR = "failed-log-dir"  # the target itself goes on
    TOPIC_DELETED = "topic-deleted"
    TOPIC_RECREATED = "topic-recreated"
    TOPIC_EXPANDED = "topic-expanded"
    THROTTLE_LIFTED = "throttle-lifted"  # as `kafka-reassign-partitions --verify` does it
    FOLDER_LOST = "folder-lost"
    LEASE_LOST = "lease-lost"
    LEASE_DAMAGED = "lease-damaged"
    STORAGE_READ_ONLY = "storage-read-only"
    STORAGE_FULL = "storage-full"
    CLOCK_AHEAD = "clock-ahead"
    CLOCK_BEHIND = "clock-behind"
    LOG_DIR_STEP = "log-dir-step"  # a process of ours in a run of `kafka_log_dirs`, as in the faults below
    LOG_DIR_LOST = "log-dir-lost"  # no process of ours takes its place
    LOG_DIR_BROKER = "log-dir-broker"  # it copies between its log dirs
    LOG_DIR_RESTART = "log-dir-restart"
    LOG_DIR_CANCELLED = "log-dir-cancelled"  # as `kafka-reassign-partitions` with the replica's own log dir
    LOG_DIR_ELSEWHERE = "log-dir-elsewhere"  # the same with a third log dir


class Moment(StrEnum):
    """When the fault strikes."""

    BEFORE = "before"  # approved, and nothing written yet
    SUBMIT = "submit"  # the reassignment znode has just been created
    MID_COPY = "mid-copy"  # the target holds two fifths of the bytes
    END = "end"  # the first new replica is in sync
    # Of a run between log dirs:
    CLAIM = "claim"  # it takes the cluster's lock
    THROTTLE = "throttle"  # it records and sets the rates
    ALTER = "alter"  # a broker has just been asked for a copy
    FOLLOW = "follow"  # the triggerer follows a copy that has two fifths of its bytes
    CLEAN_UP = "clean-up"  # it puts the rates back
    VERIFY = "verify"  # it notes the verification


class Ending(StrEnum):
    """How a run may end."""

    AS_APPROVED = "as-approved"  # at once, or after a clear once the cause is gone
    TOLD = "told"  # it fails and says why; whoever follows its advice finds no throttle, lock or request left


class Needs(StrEnum):
    """The cluster on which a fault can be made."""

    ANY = "any"
    ZOOKEEPER = "zookeeper"
    QUORUM = "quorum"  # controllers that are no brokers
    LOG_DIRS = "log-dirs"  # brokers with three log dirs, for runs of `kafka_log_dirs`


KILLED = (Moment.SUBMIT, Moment.MID_COPY, Moment.END)
STEPS_KILLED = (  # in which a step's process is killed
    Moment.CLAIM,
    Moment.THROTTLE,
    Moment.ALTER,
    Moment.MID_COPY,
    Moment.FOLLOW,
    Moment.CLEAN_UP,
    Moment.VERIFY,
)


@dataclass(frozen=True, slots=True)
class Kind:
    """One fault in words, when it strikes, and how the run must end."""

    text: str
    moments: tuple[Moment, ...] = (Moment.MID_COPY,)
    ending: Ending = Ending.AS_APPROVED
    told: str = ""  # a pattern that must match something that the run says
    needs: Needs = Needs.ANY


KINDS = {
    Fault.TARGET: Kind("kill -9 of the target broker", KILLED),
    Fault.LEADER: Kind("kill -9 of a leader that copies are read from", KILLED),
    Fault.CONTROLLER: Kind("kill -9 of the controller", KILLED),
    Fault.ZOOKEEPER: Kind("kill -9 of all of ZooKeeper, started again", KILLED, needs=Needs.ZOOKEEPER),
    Fault.ZOOKEEPER_ONE: Kind("kill -9 of the leader of three ZooKeepers", KILLED, needs=Needs.ZOOKEEPER),
    Fault.QUORUM: Kind("kill -9 of all three controllers, started again", KILLED, needs=Needs.QUORUM),
    Fault.QUORUM_LEADER: Kind("kill -9 of the active one of three controllers", KILLED, needs=Needs.QUORUM),
    Fault.RACK: Kind("kill -9 of all brokers of the target's rack", KILLED),
    Fault.FROZEN: Kind("SIGSTOP of the target broker", KILLED),
    Fault.WORKER: Kind("kill -9 of our worker", KILLED),
    Fault.TRIGGERER: Kind("kill -9 of our triggerer", KILLED),
    Fault.EVERYTHING: Kind("kill -9 of all brokers, of ZooKeeper or the quorum, and of our processes"),
    Fault.SLOW_ZOOKEEPER: Kind("ZooKeeper stopped for seconds, again and again", needs=Needs.ZOOKEEPER),
    Fault.FULL_DISK: Kind("no room on the target's disk", told=r"[Bb]roker 4 "),
    Fault.FAILED_LOG_DIR: Kind("one of the target's two log dirs fails", told=r"log dir"),
    Fault.TOPIC_DELETED: Kind("the topic is deleted", ending=Ending.TOLD, told=r"delet|gone|not there|no longer there"),
    Fault.TOPIC_RECREATED: Kind("the topic is deleted and created again", ending=Ending.TOLD, told=r"creat|made again"),
    Fault.TOPIC_EXPANDED: Kind("the topic gets two more partitions"),
    Fault.THROTTLE_LIFTED: Kind("somebody's `--verify` lifts the throttle", told=r"lifted"),
    Fault.FOLDER_LOST: Kind(
        "the run's folder is lost", ending=Ending.TOLD, told=r"folder.{0,200}(gone|lost|removed|deleted)"
    ),
    Fault.LEASE_LOST: Kind("the throttle's lease is lost"),
    Fault.LEASE_DAMAGED: Kind("the throttle's lease is damaged"),
    Fault.STORAGE_READ_ONLY: Kind("storage is read-only for ten seconds"),
    Fault.STORAGE_FULL: Kind("storage is full for ten seconds"),
    Fault.CLOCK_AHEAD: Kind("our clocks are a day ahead", (Moment.BEFORE, Moment.MID_COPY)),
    Fault.CLOCK_BEHIND: Kind("our clocks are a day behind", (Moment.BEFORE, Moment.MID_COPY)),
    Fault.LOG_DIR_STEP: Kind("kill -9 of the step's process", STEPS_KILLED, needs=Needs.LOG_DIRS),
    Fault.LOG_DIR_LOST: Kind(
        "kill -9 of our worker, and Airflow tries no task again",
        ending=Ending.TOLD,
        told=r"Nobody follows the copies",
        needs=Needs.LOG_DIRS,
    ),
    Fault.LOG_DIR_BROKER: Kind("kill -9 of a broker that copies", needs=Needs.LOG_DIRS),
    Fault.LOG_DIR_RESTART: Kind("restart of a broker that copies", needs=Needs.LOG_DIRS),
    Fault.LOG_DIR_CANCELLED: Kind("a second tool cancels a copy", needs=Needs.LOG_DIRS),
    Fault.LOG_DIR_ELSEWHERE: Kind(
        "a second tool sends a replica that is copied to a third log dir",
        ending=Ending.TOLD,
        told=r"[Ss]omebody else has moved",
        needs=Needs.LOG_DIRS,
    ),
}


def without_suffix(version: str) -> str:
    """The version of Kafka itself."""
    return version.removesuffix(_KRAFT)


@dataclass(frozen=True, slots=True)
class Case:
    """One fault at one moment on one version. `version` ends with `-kraft` where there is no ZooKeeper.

    `time` is 2 where the same cluster meets the fault at this moment for the second time.
    """

    version: str
    fault: Fault
    moment: Moment
    seed: int
    time: int = 1

    @property
    def name(self) -> str:
        return f"{self.version}/{self.fault}/{self.moment}" + (f"/{self.time}" if self.time > 1 else "")

    @property
    def topic(self) -> str:
        return f"{self.fault}-at-{self.moment}" + (f"-{self.time}" if self.time > 1 else "")

    @property
    def is_kill(self) -> bool:
        """Whether the case belongs to the matrix of kills, which strike at each moment."""
        return self.kind.moments == KILLED

    @property
    def has_zookeeper(self) -> bool:
        return not self.version.endswith(_KRAFT)

    @property
    def has_own_quorum(self) -> bool:
        """Whether controllers are no brokers."""
        return self.kind.needs is Needs.QUORUM

    @property
    def is_between_log_dirs(self) -> bool:
        """Whether the run is one of `kafka_log_dirs`."""
        return self.kind.needs is Needs.LOG_DIRS

    @property
    def cluster(self) -> tuple[bool, bool]:
        """Cases that differ in this cannot share a cluster."""
        return self.has_own_quorum, self.is_between_log_dirs

    @property
    def kind(self) -> Kind:
        return KINDS[self.fault]

    def random(self) -> random.Random:
        """Random numbers that depend on the case alone, not on earlier cases."""
        return random.Random(f"{self.seed}/{self.name}")


def matrix(versions: Collection[str] = EVERY_VERSION, only: Collection[str] = (), seed: int = 6) -> Iterator[Case]:
    """All cases of these versions, by version. `only` keeps the cases with one of these parts in their name."""
    for version in versions:
        for fault, kind in KINDS.items():
            if kind.needs is (Needs.ZOOKEEPER if version.endswith(_KRAFT) else Needs.QUORUM):
                continue
            if kind.needs is Needs.LOG_DIRS and version == WITHOUT_LOG_DIRS:
                continue
            for moment in kind.moments:
                case = Case(version, fault, moment, seed)
                if not only or any(part in case.name for part in only):
                    yield case
