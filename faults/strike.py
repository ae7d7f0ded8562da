"""The moments at which a fault strikes, the faults, and how each heals."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kazoo.exceptions import KazooException

from faults.cases import Case, Fault, Moment
from faults.cluster import AFTER, BULK_BYTES, RACK, SESSION_SECONDS, TARGET, ZOOKEEPERS, FaultCluster

LOOK_SECONDS = 0.02
MID_COPY = 0.4  # of the bytes that the target is to hold
OUTAGE_SECONDS = 3.0  # of ZooKeeper
FROZEN_SECONDS = SESSION_SECONDS + 3.0  # first registered and answering nothing, then its session ends too


class Strike(threading.Thread):
    """Watches for the moment, strikes, and heals. `kill_ours` kills a process of ours; it waits until there is one.

    `requests` are the zxids that created the reassignment znode, as seen by looking fifty times a second.
    """

    def __init__(self, cluster: FaultCluster, case: Case, kill_ours: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.cluster, self.case, self.kill_ours = cluster, case, kill_ours
        self.struck_at: float | None = None  # time.monotonic()
        self.what = self.problem = ""
        self.requests: set[int] = set()
        self._over = threading.Event()
        self._random = case.random()
        if case.fault is Fault.CONTROLLER:
            cluster.move_controller(away_from=TARGET)
        self._leader = self._random.choice([broker for broker in (1, 2, 3) if broker != cluster.controller()])

    def end(self) -> None:
        """The run is over: stop watching, and wait until everything that was struck runs again."""
        self._over.set()
        self.join(180)

    def run(self) -> None:
        healing = None
        while not self._over.is_set():
            try:
                created = self.cluster.reassignment()
                if created is not None:
                    self.requests.add(created)
                if self.struck_at is None and self._is_due(created is not None):
                    time.sleep(self._random.uniform(0, self._latest()))
                    self.struck_at = time.monotonic()
                    heal = self._strike()
                    healing = threading.Thread(target=self._heal, args=(heal,), daemon=True)
                    healing.start()
            except KazooException:
                pass  # ZooKeeper is what was struck
            except Exception as failed:
                self.problem = f"the fault could not be made: {failed}"
                return
            time.sleep(LOOK_SECONDS)
        if healing is not None:
            healing.join()

    def _is_due(self, requested: bool) -> bool:
        if self._while_writing():
            return self.cluster.is_locked()
        if not self.requests or self.case.moment is Moment.SUBMIT:
            return bool(self.requests)
        if self.case.moment is Moment.MID_COPY:
            return self.cluster.bytes_on(TARGET, self.case.topic) >= MID_COPY * BULK_BYTES * len(AFTER)
        return not requested or any(TARGET in self.cluster.isr(self.case.topic, partition) for partition in AFTER)

    def _while_writing(self) -> bool:
        """ZooKeeper is struck at submit while we write: from the lock over the throttles to the request."""
        return self.case.moment is Moment.SUBMIT and self.case.fault in {Fault.ZOOKEEPER, Fault.ZOOKEEPER_ONE}

    def _latest(self) -> float:
        """Seconds after the moment."""
        return 1.0 if self._while_writing() else 0.2

    def _heal(self, heal: Callable[[], None]) -> None:
        try:
            heal()
        except Exception as failed:
            self.problem = f"what was struck was not made whole again: {failed}"

    def _strike(self) -> Callable[[], None]:
        """Strikes; returns what makes it whole again."""
        strikes: dict[Fault, Callable[[], Callable[[], None]]] = {
            Fault.TARGET: lambda: self._kill(TARGET),
            Fault.LEADER: lambda: self._kill(self._leader),
            Fault.CONTROLLER: lambda: self._kill(self.cluster.controller() or 1),
            Fault.RACK: lambda: self._kill(*RACK),
            Fault.FROZEN: self._freeze,
            Fault.ZOOKEEPER: lambda: self._kill_zookeepers(*ZOOKEEPERS),
            Fault.ZOOKEEPER_ONE: lambda: self._kill_zookeepers(self.cluster.zookeeper_leader()),
        }
        if self.case.fault in strikes:
            return strikes[self.case.fault]()
        self.what = "killed"
        return self.kill_ours

    def _freeze(self) -> Callable[[], None]:
        self.cluster.local.freeze_broker(TARGET)
        self.what = f"broker {TARGET} frozen for {FROZEN_SECONDS:.0f} s"

        def thaw() -> None:
            time.sleep(2)
            registered = TARGET in self.cluster.registered()
            time.sleep(FROZEN_SECONDS - 2)
            self.cluster.local.thaw_broker(TARGET)
            if not registered:
                raise RuntimeError(f"broker {TARGET} was to be registered while it was frozen, and was not")

        return thaw

    def _kill_zookeepers(self, *servers: int) -> Callable[[], None]:
        for server in servers:
            self.cluster.local.kill_zookeeper(server)
        self.what = f"ZooKeeper {', '.join(map(str, servers))} killed"
        return self._later(OUTAGE_SECONDS, lambda: self.cluster.local.start_zookeeper(*servers))

    def _kill(self, *brokers: int) -> Callable[[], None]:
        for broker in brokers:
            self.cluster.local.kill_broker(broker)
        self.what = f"broker {', '.join(map(str, brokers))} killed"
        return lambda: self.cluster.local.start_broker(*brokers)

    @staticmethod
    def _later(seconds: float, heal: Callable[[], None]) -> Callable[[], None]:
        def wait() -> None:
            time.sleep(seconds)
            heal()

        return wait
