"""ZooKeeper and every broker in a JVM of its own, so that each can be killed."""

import signal
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.jvms.one_jvm import OneJvm
from kafka_rebalance.local_cluster.jvms.runtime import Runtime
from kafka_rebalance.local_cluster.jvms.server_settings import Peer, write_properties, zookeeper_properties
from kafka_rebalance.local_cluster.machine.processes import Guard, Process, ProcessId, last_lines, start_process

ZOOKEEPER = "zookeeper"


def zookeeper_name(server: int, ensemble: Collection[int]) -> str:
    """The name of its process and files. A single server has no number."""
    return f"{ZOOKEEPER}-{server}" if ensemble else ZOOKEEPER


def broker_name(broker: int) -> str:
    return f"broker-{broker}"


class SeparateJvms:
    """The layout that can kill servers. Without a guard the JVMs outlive this process.

    Its methods, and those of `OneJvm`, do not wait until a broker is registered in ZooKeeper.
    `runtime` is called only when a server is started, because ending a cluster must not need it.
    """

    def __init__(
        self,
        folder: Path,
        runtime: Callable[[], Runtime],
        guard: Guard | None,
        *,
        running: Mapping[str, ProcessId] | None = None,
    ) -> None:
        self._folder = folder
        self._runtime = runtime
        self._guard = guard
        self._ensemble: Mapping[int, Peer] = {}
        self.on_change: Callable[[], None] = lambda: None
        self._processes = {name: Process(identity) for name, identity in (running or {}).items()}

    @property
    def running(self) -> dict[str, ProcessId]:
        """The processes that were started and not stopped, by name."""
        return {name: process.identity for name, process in self._processes.items()}

    def start_zookeepers(self, ports: Mapping[int, int], ensemble: Mapping[int, Peer], *, tls: bool = False) -> None:
        """Start these servers, given as {number: client port}. `ensemble` names all servers; it is empty for one.

        `tls` is for clients. Its settings are system properties.
        """
        self._ensemble = ensemble
        for server, port in ports.items():
            name = zookeeper_name(server, ensemble)
            data = self._folder / name
            if ensemble:
                data.mkdir(exist_ok=True)
                (data / "myid").write_text(f"{server}\n", encoding="utf-8")
            config = self._folder / ("zoo.cfg" if not ensemble else f"zoo-{server}.cfg")
            config.write_text(zookeeper_properties(data, port, ensemble, tls=tls), encoding="utf-8")
            self._start(name, "96m", "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)

    def signal_zookeeper(self, server: int, number: signal.Signals) -> None:
        """Send a signal; SIGKILL returns when the process is gone."""
        self._signal(zookeeper_name(server, self._ensemble), number)

    def format_storage(self, cluster_id: str, properties: Mapping[int, Mapping[str, str]]) -> None:
        """In one JVM, which ends at once: each JVM of the tool would need seconds to start."""
        with tempfile.TemporaryDirectory(prefix="format-", dir=self._folder) as folder:
            jvm = OneJvm(Path(folder), self._runtime(), self._guard)
            try:
                jvm.format_storage(cluster_id, properties)
            finally:
                jvm.close()

    def start_brokers(self, properties: Mapping[int, Mapping[str, str]]) -> None:
        for broker, values in properties.items():
            name = broker_name(broker)
            config = write_properties(self._folder / f"{name}.properties", values)
            self._start(name, "256m", "kafka.Kafka", config)

    def stop_broker(self, broker: int) -> None:
        """A controlled shutdown: the broker first hands over its leaders."""
        self._signal(broker_name(broker), signal.SIGTERM)

    def signal_broker(self, broker: int, number: signal.Signals) -> None:
        self._signal(broker_name(broker), number)

    def is_running(self, broker: int) -> bool:
        process = self._processes.get(broker_name(broker))
        return process is not None and process.is_alive()

    def check_alive(self, brokers: Collection[int] = ()) -> None:
        """Raises, with the end of the log, if ZooKeeper or one of these brokers has ended by itself."""
        zookeepers = [name for name in self._processes if name.startswith(ZOOKEEPER)]
        for name in (*zookeepers, *map(broker_name, brokers)):
            if name in self._processes and not self._processes[name].is_alive():
                raise LocalClusterError(
                    f"{name} ended by itself. {last_lines(self._folder / f'{name}.log')} "
                    f"{last_lines(self._folder / f'{name}.out')}"
                )

    def close(self) -> None:
        for process in self._processes.values():
            process.identity.send(signal.SIGKILL)
        for name in list(self._processes):
            self._signal(name, signal.SIGKILL)

    def _start(self, name: str, heap: str, main_class: str, config: Path) -> None:
        log = self._folder / f"{name}.log"
        command = self._runtime().command(heap, self._folder, log, [main_class, str(config)])
        output = self._folder / f"{name}.out"
        self._processes[name] = start_process(command, output, self._guard)
        self.on_change()

    def _signal(self, name: str, number: signal.Signals) -> None:
        process = self._processes[name]
        if number in (signal.SIGSTOP, signal.SIGCONT):
            process.identity.send(number)
            return
        if not process.end(number):
            raise LocalClusterError(
                f"{name} (pid {process.identity.pid}) still runs 30 s after {number.name}. "
                f"Nothing more was done to it. {last_lines(self._folder / f'{name}.log')}"
            )
        del self._processes[name]
        self.on_change()
