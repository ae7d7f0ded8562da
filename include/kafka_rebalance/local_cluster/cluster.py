"""A Kafka cluster on this machine, as one object."""

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Self

from kafka_rebalance.local_cluster import zookeeper_topics
from kafka_rebalance.local_cluster.detached import STATE_FILE, read_state, write_state
from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.jars.class_path import Progress, quiet
from kafka_rebalance.local_cluster.jars.locked_jars import DEFAULT_VERSION, VERSIONS
from kafka_rebalance.local_cluster.jvms.class_archive import find_runtime
from kafka_rebalance.local_cluster.jvms.one_jvm import OneJvm
from kafka_rebalance.local_cluster.jvms.runtime import Runtime
from kafka_rebalance.local_cluster.jvms.separate_jvms import SeparateJvms
from kafka_rebalance.local_cluster.jvms.server_settings import broker_properties
from kafka_rebalance.local_cluster.kraft_mode import KraftMode
from kafka_rebalance.local_cluster.machine.ports import accepts_connections, free_port
from kafka_rebalance.local_cluster.machine.processes import Guard, ProcessId
from kafka_rebalance.local_cluster.mode import Mode, check_placed, check_possible, check_securable
from kafka_rebalance.local_cluster.records import produce_records
from kafka_rebalance.local_cluster.security.server_security import ServerSecurity
from kafka_rebalance.local_cluster.zookeeper_mode import ZooKeeperMode

_NOT_UP = "This cluster does not run. Nothing was done. Use it in a `with` block, or call start()."
WAIT_SECONDS = 90


class LocalCluster:
    """Brokers, with ZooKeeper or the controllers of KRaft. `with` starts them. All of it ends with the block, or with
    this Python however that ends.

    - Brokers have ids from 1. `racks` is the number of racks; brokers get `rack-0`, `rack-1`, … in turn (0: no racks).
    - `one_jvm` starts fast. Without it each server has a JVM, and `kill_broker` works.
    - `folder` must be new or empty, and stays. By default it is a temporary one, which is removed at the end.
    - `broker_config` overrides server.properties. In its values `{data}` is that broker's folder and `{id}` its id.
      `{port}` is the port that `bootstrap_servers` names, for brokers with other `listeners`.
      So `{"log.dirs": "{data}/a,{data}/b"}` gives each broker two log dirs.
    - `security` adds listeners that ask clients who they are. `bootstrap_servers` stays a plain listener.
    - A `detached` cluster has separate JVMs and outlives this process.
    - More than one of `zookeepers` is an ensemble. It needs separate JVMs, which end with this process.
    - `kraft` is for versions that run with and without ZooKeeper. Kafka 4 has KRaft alone. Its first three brokers are
      controllers too, unless there are `controllers` of their own, with node ids from 101.
    """

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        brokers: int = 3,
        racks: int = 3,
        *,
        zookeepers: int = 1,
        kraft: bool = False,
        controllers: int = 0,
        one_jvm: bool = True,
        folder: Path | None = None,
        broker_config: Mapping[str, str | int] | None = None,
        security: ServerSecurity | None = None,
        detached: bool = False,
        progress: Progress = quiet,
    ) -> None:
        kraft = kraft or version not in VERSIONS
        check_possible(version, brokers, racks, zookeepers, kraft, controllers, one_jvm=one_jvm, detached=detached)
        if security is not None:
            check_securable(version, detached=detached)
        self.version = version
        self.kraft = kraft
        self.brokers: dict[int, str | None] = {}
        self._racks = racks
        self._first_brokers = brokers
        self._one_jvm = one_jvm and not detached
        self._detached = detached
        self._folder_given = folder
        self._security = security
        secured = security.broker_settings(kraft=kraft) if security is not None else {}
        self._broker_config = {**secured, **{key: str(value) for key, value in (broker_config or {}).items()}}
        self._own_config: dict[int, dict[str, str]] = {}  # of added brokers, by id
        self._progress = progress
        self._ports: dict[int, int] = {}
        self._mode: Mode = KraftMode(controllers) if kraft else ZooKeeperMode(zookeepers, security=security)
        self._folder: Path | None = None
        self._guard: Guard | None = None
        self._layout_made: OneJvm | SeparateJvms | None = None

    @classmethod
    def attach(cls, folder: Path, progress: Progress = quiet) -> Self:
        """The detached cluster that an earlier process started in `folder`."""
        state = read_state(folder)
        kraft = "zookeeper_port" not in state
        cluster = cls(
            state["version"], len(state["brokers"]), state["racks"], kraft=kraft, detached=True, progress=progress
        )
        cluster._folder = cluster._folder_given = folder
        cluster._mode = KraftMode(state=state) if kraft else ZooKeeperMode(ports={1: state["zookeeper_port"]})
        cluster._broker_config = state["broker_config"]
        for broker in state["brokers"]:
            cluster.brokers[broker["id"]] = broker["rack"]
            cluster._ports[broker["id"]] = broker["port"]
            cluster._own_config[broker["id"]] = broker.get("config", {})
        running = {name: ProcessId(pid, started) for name, (pid, started) in state["processes"].items()}
        cluster._layout_made = cluster._make_separate_jvms(folder, running)
        return cluster

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def zookeeper(self) -> str:
        """`host:port` of every server, stopped ones too."""
        return self.zookeeper_mode.connect

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, stopped ones too, by id."""
        return ",".join(f"127.0.0.1:{self._ports[broker]}" for broker in sorted(self._ports))

    @property
    def folder(self) -> Path:
        """Where data and logs are, while the cluster is up."""
        if self._folder is None:
            raise LocalClusterError(_NOT_UP)
        return self._folder

    def zookeeper_is_running(self) -> bool:
        """Whether any server takes connections."""
        return self.zookeeper_mode.is_up()

    def is_running(self, broker: int) -> bool:
        self._check_broker(broker)
        return self.layout.is_running(broker)

    def start(self) -> Self:
        """Start everything and return when every broker is registered and there is a controller."""
        if self._layout_made is not None:
            raise LocalClusterError(
                f"This cluster already runs, in {self.folder}. Nothing was started. Call close() first."
            )
        # Before anything is made or started, because this may fail and may take a while.
        runtime = self._runtime
        try:
            self._start(runtime)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End every process and remove the temporary folder. A given folder stays."""
        layout, self._layout_made = self._layout_made, None
        guard, self._guard = self._guard, None
        try:
            if layout is not None:
                layout.close()
        finally:
            if guard is not None:
                guard.close()
            if self._folder is not None and self._folder_given is None:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def add_broker(self, rack: str | None = None, config: Mapping[str, str | int] | None = None) -> int:
        """Start an empty broker with the next id, in `rack` or else in the next rack; returns the id.

        `config` is for its server.properties alone and overrides the cluster's `broker_config`.
        """
        broker = max(self.brokers) + 1
        self._own_config[broker] = {key: str(value) for key, value in (config or {}).items()}
        self._plan_broker(broker, rack)
        self._start_brokers([broker])
        return broker

    def stop_broker(self, broker: int) -> None:
        """A controlled shutdown; returns when the broker has left the cluster and another one is controller."""
        self._check_broker(broker, running=True)
        self.layout.stop_broker(broker)
        with self._mode.open(self.bootstrap_servers) as registry:
            self._wait(f"broker {broker} has left the cluster", lambda: registry.has_left(broker))

    def kill_broker(self, broker: int) -> None:
        """kill -9. The broker stays registered until its session ends (4 s)."""
        self._check_broker(broker, running=True)
        self.layout.signal_broker(broker, signal.SIGKILL)

    def start_broker(self, *brokers: int) -> None:
        """Start brokers that were stopped or killed, with their data; returns when they are registered."""
        for broker in brokers:
            self._check_broker(broker, running=False)
        with self._mode.open(self.bootstrap_servers) as registry:
            # A broker gives up if its old registration is still there (KafkaZkClient.CheckedEphemeral).
            self._wait(
                f"the old registrations of brokers {brokers} end",
                lambda: registry.read_registered().isdisjoint(brokers),
            )
        self._start_brokers(brokers)

    def restart_as(self, mode: Mode) -> None:
        """Restart one broker after the other, each with what it registers with in this mode."""
        before, self.kraft = self._mode, isinstance(mode, KraftMode)
        for broker in sorted(self.brokers):
            self._mode = before
            self.stop_broker(broker)
            self._mode = mode
            self._start_brokers([broker])

    def freeze_broker(self, broker: int) -> None:
        """SIGSTOP: the broker stands still and stays registered until its session ends. `thaw_broker` ends that."""
        self._check_broker(broker, running=True)
        self.layout.signal_broker(broker, signal.SIGSTOP)

    def thaw_broker(self, broker: int) -> None:
        """SIGCONT: the broker goes on where it stopped."""
        self._check_broker(broker, running=True)
        self.layout.signal_broker(broker, signal.SIGCONT)

    def kill_zookeeper(self, server: int = 1) -> None:
        """kill -9 one server, by its number from 1."""
        self._signal_zookeeper(server, signal.SIGKILL)

    def freeze_zookeeper(self, server: int = 1) -> None:
        """SIGSTOP one server, by its number from 1. `thaw_zookeeper` ends that."""
        self._signal_zookeeper(server, signal.SIGSTOP)

    def thaw_zookeeper(self, server: int = 1) -> None:
        """SIGCONT: the server goes on where it stopped."""
        self._signal_zookeeper(server, signal.SIGCONT)

    def start_zookeeper(self, *servers: int) -> None:
        """Start servers that were killed, with their data; returns when they take connections."""
        ports = {server: self.zookeeper_mode.server_ports[server] for server in servers or (1,)}
        self.zookeeper_mode.start_servers(self.layout, ports)
        for server, port in ports.items():
            self._wait(f"ZooKeeper {server} takes connections", lambda port=port: accepts_connections(port))  # type: ignore[misc]

    def kill_controller(self, node: int) -> None:
        """kill -9 one controller of a quorum of its own, by its node id."""
        self.layout.signal_broker(node, signal.SIGKILL)

    def start_controller(self, node: int) -> None:
        """Start a controller that was killed, with its data; returns when it takes connections."""
        assert isinstance(self._mode, KraftMode)
        self.layout.start_brokers({node: self._mode.controller_properties(node, self.folder)})
        port = self._mode.controller_ports[node]
        self._wait(f"controller {node} takes connections", lambda: accepts_connections(port))

    def create_topic(
        self, topic: str, replicas: Mapping[int, Sequence[int]], config: Mapping[str, str | int] | None = None
    ) -> None:
        """Create the topic with these replicas by partition, the preferred leader first.

        Returns when every partition has a leader, and every running broker has its replicas and shows the topic.
        """
        check_placed(topic, replicas, self.brokers)
        with self._mode.open(self.bootstrap_servers) as registry:
            registry.create_topic(topic, replicas, {key: str(value) for key, value in (config or {}).items()})
            led = f"every partition of topic {topic} has a leader"
            self._wait(led, lambda: not registry.read_leaderless(topic, replicas))
        running = [broker for broker in self.brokers if self.is_running(broker)]
        self._wait(
            f"every broker knows topic {topic}",
            lambda: not zookeeper_topics.read_unaware(self.bootstrap_servers, topic, running),
        )

    def produce(self, topic: str, size_bytes: Mapping[int, int]) -> None:
        """Write that many bytes to each partition in real records; returns when all replicas in sync have them."""
        produce_records(self.bootstrap_servers, topic, size_bytes)

    @property
    def layout(self) -> OneJvm | SeparateJvms:
        if self._layout_made is None:
            raise LocalClusterError(_NOT_UP)
        return self._layout_made

    def _start(self, runtime: Runtime) -> None:
        self._folder = folder = self._make_folder()
        self.brokers.clear()
        self._ports.clear()
        self._own_config.clear()
        self._mode.plan(range(1, self._first_brokers + 1))
        for broker in range(1, self._first_brokers + 1):
            self._plan_broker(broker, None)
        if not self._detached:
            self._guard = Guard([folder] if self._folder_given is None else [])
        beside = "" if self.kraft else "ZooKeeper and "
        self._progress(f"Starting {beside}{len(self.brokers)} brokers of Kafka {self.version} in {folder} …")
        if self._one_jvm:
            assert self._guard is not None
            self._layout_made = OneJvm(folder, runtime, self._guard)
        else:
            self._layout_made = self._make_separate_jvms(folder, {})
        self._mode.start(self.layout, folder, self._properties(self.brokers))
        self._start_brokers(sorted(self.brokers))
        if self._security is not None:
            self._security.make_users(self.bootstrap_servers)

    @cached_property
    def _runtime(self) -> Runtime:
        runtime = find_runtime(self.version, self._progress)
        more = () if self._security is None else self._security.jvm_options
        return replace(runtime, options=(*runtime.options, *more))

    def _make_separate_jvms(self, folder: Path, running: Mapping[str, ProcessId]) -> SeparateJvms:
        layout = SeparateJvms(folder, lambda: self._runtime, self._guard, running=running)
        if self._detached:
            layout.on_change = lambda: self._write_state(folder, layout)
            self._write_state(folder, layout)
        return layout

    def _make_folder(self) -> Path:
        if self._folder_given is None:
            return Path(tempfile.mkdtemp(prefix="local-cluster-"))
        folder = self._folder_given.absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            in_use = any(folder.iterdir())
        except OSError as error:
            raise LocalClusterError(f"The folder {folder} cannot be used: {error}. Nothing was started.") from error
        if in_use:
            raise LocalClusterError(
                f"The folder {folder} is not empty. It was not changed, and nothing was started. Name another folder"
                + (", or end the cluster in it with `down`." if (folder / STATE_FILE).exists() else ".")
            )
        return folder

    def _plan_broker(self, broker: int, rack: str | None) -> None:
        if rack is None and self._racks:
            rack = f"rack-{(broker - 1) % self._racks}"
        self.brokers[broker] = rack
        self._ports[broker] = free_port({*self._mode.ports, *self._ports.values()})

    def _properties(self, brokers: Collection[int]) -> dict[int, dict[str, str]]:
        return {
            broker: broker_properties(
                broker,
                rack=self.brokers[broker],
                port=self._ports[broker],
                registry=self._mode.settings(broker, self._ports[broker], self.folder),
                data=self.folder / f"data-{broker}",
                brokers=len(self.brokers),
                overrides=self._broker_config | self._own_config.get(broker, {}),
            )
            for broker in brokers
        }

    def _start_brokers(self, brokers: Collection[int]) -> None:
        properties = self._properties(brokers)
        self._mode.join(self.layout, properties)
        self.layout.start_brokers(properties)
        self._wait(f"{self._mode.name} answers", self._mode.is_up, brokers)
        with self._mode.open(self.bootstrap_servers) as registry:
            joined = f"brokers {sorted(brokers)} are registered, and there is a controller"
            self._wait(joined, lambda: registry.have_joined(brokers), brokers)

    def _wait(self, what: str, holds: Callable[[], bool], brokers: Collection[int] = ()) -> None:
        give_up = time.monotonic() + WAIT_SECONDS
        while not holds():
            self.layout.check_alive(brokers)
            if time.monotonic() > give_up:
                raise LocalClusterError(
                    f"This has not come true within {WAIT_SECONDS} s: {what}. The logs are in {self.folder}."
                )
            time.sleep(0.03)

    def _check_broker(self, broker: int, running: bool | None = None) -> None:
        if broker not in self.brokers:
            raise LocalClusterError(
                f"There is no broker {broker}. Nothing was done. The brokers are {sorted(self.brokers)}."
            )
        if running is not None and self.layout.is_running(broker) != running:
            raise LocalClusterError(f"Broker {broker} {'does not run' if running else 'runs'}. Nothing was done.")

    def _write_state(self, folder: Path, layout: SeparateJvms) -> None:
        brokers = [
            {"id": id_, "rack": rack, "port": self._ports[id_], "config": self._own_config.get(id_, {})}
            for id_, rack in self.brokers.items()
        ]
        started = {name: [process.pid, process.started] for name, process in layout.running.items()}
        state = {"version": self.version, "racks": self._racks, **self._mode.to_state(), "brokers": brokers}
        write_state(folder, state | {"broker_config": self._broker_config, "processes": started})

    def _signal_zookeeper(self, server: int, number: signal.Signals) -> None:
        if server not in self.zookeeper_mode.server_ports:
            raise LocalClusterError(f"There is no ZooKeeper {server}. Nothing was done.")
        self.layout.signal_zookeeper(server, number)

    @property
    def zookeeper_mode(self) -> ZooKeeperMode:
        if not isinstance(self._mode, ZooKeeperMode):
            raise LocalClusterError("This cluster runs in KRaft mode and has no ZooKeeper. Nothing was done.")
        return self._mode
