"""Watches for the moment of a fault, strikes and heals."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from faults.cases import Case, Fault, Moment
from faults.clusters.fault_cluster import (
    AFTER,
    AWAY,
    BULK_BYTES,
    CONTROLLERS,
    COPYING,
    LOG_DIR_RATE,
    RACK,
    TARGET,
    ZOOKEEPERS,
    FaultCluster,
)
from faults.clusters.replica_folders import bytes_in, coming
from faults.log_dir_run import SLOW
from faults.run import Run
from faults.strikes import clocks, disks, log_dirs, servers, storage, topics
from faults.strikes.scene import Scene, Struck

LOOK_SECONDS = 0.02
MID_COPY = 0.4  # share of the bytes that the target receives

STRIKES: Mapping[Fault, Callable[[Scene], Struck]] = {
    Fault.TARGET: lambda scene: servers.kill_brokers(scene, TARGET),
    Fault.LEADER: lambda scene: servers.kill_brokers(scene, scene.leader),
    Fault.CONTROLLER: lambda scene: servers.kill_brokers(scene, scene.cluster.controller() or 1),
    Fault.ZOOKEEPER: lambda scene: servers.kill_zookeepers(scene, *ZOOKEEPERS),
    Fault.ZOOKEEPER_ONE: lambda scene: servers.kill_zookeepers(scene, scene.cluster.zookeeper_leader()),
    Fault.QUORUM: lambda scene: servers.kill_controllers(scene, *CONTROLLERS),
    Fault.QUORUM_LEADER: lambda scene: servers.kill_controllers(scene, scene.cluster.controller() or CONTROLLERS[0]),
    Fault.RACK: lambda scene: servers.kill_brokers(scene, *RACK),
    Fault.FROZEN: servers.freeze_target,
    Fault.WORKER: servers.kill_ours,
    Fault.TRIGGERER: servers.kill_ours,
    Fault.EVERYTHING: servers.kill_everything,
    Fault.SLOW_ZOOKEEPER: servers.slow_zookeeper,
    Fault.FULL_DISK: disks.fill_disk,
    Fault.FAILED_LOG_DIR: disks.fail_log_dir,
    Fault.TOPIC_DELETED: topics.delete,
    Fault.TOPIC_RECREATED: topics.recreate,
    Fault.TOPIC_EXPANDED: topics.expand,
    Fault.THROTTLE_LIFTED: topics.lift_throttle,
    Fault.FOLDER_LOST: storage.lose_folder,
    Fault.LEASE_LOST: storage.lose_lease,
    Fault.LEASE_DAMAGED: storage.damage_lease,
    Fault.STORAGE_READ_ONLY: storage.make_read_only,
    Fault.STORAGE_FULL: storage.fill_storage,
    Fault.CLOCK_AHEAD: lambda scene: clocks.shift(scene, clocks.DAY_SECONDS),
    Fault.CLOCK_BEHIND: lambda scene: clocks.shift(scene, -clocks.DAY_SECONDS),
    Fault.LOG_DIR_STEP: servers.kill_ours,
    Fault.LOG_DIR_LOST: servers.kill_ours,
    Fault.LOG_DIR_BROKER: lambda scene: servers.kill_brokers(scene, COPYING),
    Fault.LOG_DIR_RESTART: log_dirs.restart,
    Fault.LOG_DIR_CANCELLED: log_dirs.cancel,
    Fault.LOG_DIR_ELSEWHERE: log_dirs.send_elsewhere,
}


class Strike(threading.Thread):
    """Strikes once, at the case's moment, and heals.

    `requests` are the zxids that created the reassignment znode, as far as fifty looks a second see them.
    """

    def __init__(self, cluster: FaultCluster, case: Case, ours: Run) -> None:
        super().__init__(daemon=True)
        self.cluster, self.case = cluster, case
        self.struck_at: float | None = None  # time.monotonic()
        self.what = self.problem = ""
        self.requests: set[int] = set()
        self.unthrottled: set[str] = set()  # copies between log dirs that two looks in a row saw without the rate
        self._without_rate: set[str] = set()
        self._over = threading.Event()
        self._random = case.random()
        if case.fault is Fault.CONTROLLER:
            cluster.move_controller(away_from=TARGET)
        leader = self._random.choice([broker for broker in (1, 2, 3) if broker != cluster.controller()])
        self._scene = Scene(cluster, case, ours, leader)

    def end(self) -> None:
        """Stops watching, because the run is over, and waits until the damage is healed."""
        self._over.set()
        self.join(180)

    def run(self) -> None:
        healing = None
        while not self._over.is_set():
            try:
                if self.case.is_between_log_dirs:
                    self.look_at_rates()
                created = self.cluster.reassignment()
                if created is not None:
                    self.requests.add(created)
                if self.struck_at is None and self._is_due(created is not None):
                    time.sleep(self._random.uniform(0, self._latest()))
                    healing = threading.Thread(target=self._heal, args=(self.strike(),), daemon=True)
                    healing.start()
            except AWAY:
                pass  # the fault has struck what answers us
            except Exception as failed:
                self.problem = f"the fault could not be made: {type(failed).__name__}: {failed}"
                return
            time.sleep(LOOK_SECONDS)
        if healing is not None:
            healing.join()

    def strike(self) -> Struck:
        """Strikes immediately."""
        self.struck_at = time.monotonic()
        struck = STRIKES[self.case.fault](self._scene)
        self.what = struck.what
        return struck

    def _is_due(self, requested: bool) -> bool:
        if self.case.is_between_log_dirs:
            return self._is_due_between_log_dirs()
        if self._while_writing():
            return self.cluster.is_locked()
        if not self.requests or self.case.moment is Moment.SUBMIT:
            return bool(self.requests)
        if self.case.moment is Moment.MID_COPY:
            return self.cluster.bytes_on(TARGET, self.case.topic) >= MID_COPY * BULK_BYTES * len(AFTER)
        return not requested or any(TARGET in self.cluster.isr(self.case.topic, partition) for partition in AFTER)

    def look_at_rates(self) -> None:
        """Notes copies between log dirs whose broker has not the run's rate."""
        copies = coming(self.cluster, self.case.topic)
        if not copies:
            self._without_rate = set()
            return
        registered, throttles = self.cluster.registered(), self.cluster.throttles()
        without = {
            f"partition {partition} on broker {broker}"
            for partition, broker in copies.keys() & coming(self.cluster, self.case.topic).keys()
            if broker in registered and throttles.get(f"brokers/{broker}", {}).get(LOG_DIR_RATE) != str(SLOW)
        }
        self.unthrottled |= without & self._without_rate
        self._without_rate = without

    def _is_due_between_log_dirs(self) -> bool:
        """In mid-copy. Else the step's process kills itself at its moment."""
        if self.case.moment not in (Moment.MID_COPY, Moment.FOLLOW):
            return bool(self._scene.ours.kills)
        copies = coming(self.cluster, self.case.topic).items()
        return any(broker == COPYING and bytes_in(to) >= MID_COPY * BULK_BYTES for (_, broker), to in copies)

    def _while_writing(self) -> bool:
        """Whether the fault strikes while the run writes lock, throttles and request: ZooKeeper's faults at submit."""
        return self.case.moment is Moment.SUBMIT and self.case.fault in {
            Fault.ZOOKEEPER,
            Fault.ZOOKEEPER_ONE,
            Fault.QUORUM,
        }

    def _latest(self) -> float:
        """The most seconds after the moment at which the fault strikes."""
        return 1.0 if self._while_writing() else 0.2

    def _heal(self, struck: Struck) -> None:
        try:
            struck.heal()
        except Exception as failed:
            self.problem = f"the damage could not be healed: {failed}"
