"""A ZooKeeper and its brokers on this machine, as one object."""

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from local_cluster import zookeeper_topics
from local_cluster.errors import LocalClusterError
from local_cluster.jars.class_path import Progress, quiet
from local_cluster.jars.locked_jars import DEFAULT_VERSION
from local_cluster.jvms.class_archive import find_runtime
from local_cluster.jvms.one_jvm import OneJvm
from local_cluster.jvms.runtime import Runtime
from local_cluster.jvms.separate_jvms import SeparateJvms
from local_cluster.jvms.server_settings import Peer, broker_properties
from local_cluster.machine.ports import accepts_connections, free_port
from local_cluster.machine.processes import Guard, ProcessId
from local_cluster.records import produce_records

_NOT_UP = "This cluster does not run. Nothing was done. Use it in a `with` block, or call start()."
STATE_FILE = "cluster.json"
STATE_VERSION = 1
WAIT_SECONDS = 90


class LocalCluster:
    """ZooKeeper and brokers, started by `with`. All of it ends with the block, or with this Python however that ends.

    - Brokers have ids from 1. `racks` is the number of racks; brokers get `rack-0`, `rack-1`, … in turn (0: no racks).
    - `one_jvm` starts fast. Without it each server has a JVM, and `kill_broker` works.
    - `folder` must be new or empty, and stays. By default it is a temporary one, which is removed at the end.
    - `broker_config` overrides server.properties. In its values `{data}` is that broker's folder and `{id}` its id.
      `{port}` is the port that `bootstrap_servers` names, for brokers with other `listeners`.
      So `{"log.dirs": "{data}/a,{data}/b"}` gives each broker two log dirs.
    - A `detached` cluster has separate JVMs and outlives this process.
    - More than one of `zookeepers` is an ensemble. It needs separate JVMs, which end with this process.
    """

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        brokers: int = 3,
        racks: int = 3,
        *,
        zookeepers: int = 1,
        one_jvm: bool = True,
        folder: Path | None = None,
        broker_config: Mapping[str, str | int] | None = None,
        detached: bool = False,
        progress: Progress = quiet,
    ) -> None:
        if brokers < 1 or racks < 0:
            raise LocalClusterError(
                f"A cluster cannot have {brokers} brokers in {racks} racks. Nothing was started. "
                "Ask for at least 1 broker, and for 0 racks or more."
            )
        if zookeepers < 1 or (zookeepers > 1 and (one_jvm or detached)):
            raise LocalClusterError(
                f"A cluster cannot have {zookeepers} ZooKeepers with {one_jvm=} and {detached=}. Nothing was started. "
                "Ask for 1 ZooKeeper, or for more with one_jvm=False and without detached."
            )
        self.version = version
        self.brokers: dict[int, str | None] = {}
        self._racks = racks
        self._first_brokers = brokers
        self._one_jvm = one_jvm and not detached
        self._detached = detached
        self._folder_given = folder
        self._broker_config = {key: str(value) for key, value in (broker_config or {}).items()}
        self._own_config: dict[int, dict[str, str]] = {}  # of added brokers, by id
        self._progress = progress
        self._ports: dict[int, int] = {}
        self._zookeepers = zookeepers
        self._zookeeper_ports: dict[int, int] = {}
        self._ensemble: dict[int, Peer] = {}  # empty if there is one ZooKeeper
        self._folder: Path | None = None
        self._guard: Guard | None = None
        self._layout_made: OneJvm | SeparateJvms | None = None

    @classmethod
    def attach(cls, folder: Path, progress: Progress = quiet) -> Self:
        """The detached cluster that an earlier process started in `folder`."""
        state = _read_state(folder)
        cluster = cls(state["version"], len(state["brokers"]), state["racks"], detached=True, progress=progress)
        cluster._folder = cluster._folder_given = folder
        cluster._zookeeper_ports = {1: state["zookeeper_port"]}
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
        return ",".join(f"127.0.0.1:{port}" for port in self._zookeeper_ports.values())

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
        return any(accepts_connections(port) for port in self._zookeeper_ports.values())

    def is_running(self, broker: int) -> bool:
        self._check_broker(broker)
        return self._layout.is_running(broker)

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
        """A controlled shutdown; returns when the broker has left ZooKeeper and another one is controller."""
        self._check_broker(broker, running=True)
        self._layout.stop_broker(broker)
        with zookeeper_topics.open_client(self.zookeeper) as client:
            self._wait(f"broker {broker} has left ZooKeeper", lambda: self._has_left(client, broker))

    def kill_broker(self, broker: int) -> None:
        """kill -9. The broker stays registered until its session ends (`zookeeper.session.timeout.ms`, 4 s)."""
        self._check_broker(broker, running=True)
        self._layout.signal_broker(broker, signal.SIGKILL)

    def start_broker(self, *brokers: int) -> None:
        """Start brokers that were stopped or killed, with their data; returns when they are registered."""
        for broker in brokers:
            self._check_broker(broker, running=False)
        with zookeeper_topics.open_client(self.zookeeper) as client:
            # A broker gives up if its old registration is still there (KafkaZkClient.CheckedEphemeral).
            self._wait(
                f"the old registrations of brokers {brokers} end",
                lambda: zookeeper_topics.read_registered(client).isdisjoint(brokers),
            )
        self._start_brokers(brokers)

    def freeze_broker(self, broker: int) -> None:
        """SIGSTOP: the broker stands still and stays registered until its session ends. `thaw_broker` ends that."""
        self._check_broker(broker, running=True)
        self._layout.signal_broker(broker, signal.SIGSTOP)

    def thaw_broker(self, broker: int) -> None:
        """SIGCONT: the broker goes on where it stopped."""
        self._check_broker(broker, running=True)
        self._layout.signal_broker(broker, signal.SIGCONT)

    def kill_zookeeper(self, server: int = 1) -> None:
        """kill -9 one server, by its number from 1."""
        self._layout.signal_zookeeper(server, signal.SIGKILL)

    def freeze_zookeeper(self, server: int = 1) -> None:
        """SIGSTOP one server, by its number from 1. `thaw_zookeeper` ends that."""
        self._layout.signal_zookeeper(server, signal.SIGSTOP)

    def thaw_zookeeper(self, server: int = 1) -> None:
        """SIGCONT: the server goes on where it stopped."""
        self._layout.signal_zookeeper(server, signal.SIGCONT)

    def start_zookeeper(self, *servers: int) -> None:
        """Start servers that were killed, with their data; returns when they take connections."""
        ports = {server: self._zookeeper_ports[server] for server in servers or (1,)}
        self._layout.start_zookeepers(ports, self._ensemble)
        for server, port in ports.items():
            self._wait(f"ZooKeeper {server} takes connections", lambda port=port: accepts_connections(port))  # type: ignore[misc]

    def create_topic(
        self, topic: str, replicas: Mapping[int, Sequence[int]], config: Mapping[str, str | int] | None = None
    ) -> None:
        """Create the topic with these replicas by partition, the preferred leader first.

        Returns when every partition has a leader, and every running broker has its replicas and shows the topic.
        """
        settings = {key: str(value) for key, value in (config or {}).items()}
        with zookeeper_topics.open_client(self.zookeeper) as client:
            zookeeper_topics.write_topic(client, topic, replicas, settings, self.brokers)
            self._wait(
                f"every partition of topic {topic} has a leader",
                lambda: not zookeeper_topics.read_leaderless(client, topic, replicas),
            )
        running = [broker for broker in self.brokers if self.is_running(broker)]
        self._wait(
            f"every broker knows topic {topic}",
            lambda: not zookeeper_topics.read_unaware(self.bootstrap_servers, topic, running),
        )

    def produce(self, topic: str, size_bytes: Mapping[int, int]) -> None:
        """Write that many bytes to each partition in real records; returns when all replicas in sync have them."""
        produce_records(self.bootstrap_servers, topic, size_bytes)

    @property
    def _layout(self) -> OneJvm | SeparateJvms:
        if self._layout_made is None:
            raise LocalClusterError(_NOT_UP)
        return self._layout_made

    def _start(self, runtime: Runtime) -> None:
        self._folder = folder = self._make_folder()
        self.brokers.clear()
        self._ports.clear()
        self._own_config.clear()
        self._plan_zookeepers()
        for broker in range(1, self._first_brokers + 1):
            self._plan_broker(broker, None)
        if not self._detached:
            self._guard = Guard([folder] if self._folder_given is None else [])
        self._progress(f"Starting ZooKeeper and {len(self.brokers)} brokers of Kafka {self.version} in {folder} …")
        if self._one_jvm:
            assert self._guard is not None
            self._layout_made = OneJvm(folder, runtime, self._guard)
        else:
            self._layout_made = self._make_separate_jvms(folder, {})
        self._layout.start_zookeepers(self._zookeeper_ports, self._ensemble)
        self._start_brokers(sorted(self.brokers))

    @cached_property
    def _runtime(self) -> Runtime:
        return find_runtime(self.version, self._progress)

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

    def _plan_zookeepers(self) -> None:
        taken: list[int] = []
        for _ in range(3 * self._zookeepers):
            taken.append(free_port(taken))
        numbers = range(1, self._zookeepers + 1)
        self._zookeeper_ports = dict(zip(numbers, taken, strict=False))
        peers = (Peer(*taken[at : at + 2]) for at in range(self._zookeepers, len(taken), 2))
        self._ensemble = dict(zip(numbers, peers, strict=True)) if self._zookeepers > 1 else {}

    def _plan_broker(self, broker: int, rack: str | None) -> None:
        if rack is None and self._racks:
            rack = f"rack-{(broker - 1) % self._racks}"
        self.brokers[broker] = rack
        peers = (port for peer in self._ensemble.values() for port in peer)
        self._ports[broker] = free_port({*self._zookeeper_ports.values(), *peers, *self._ports.values()})

    def _start_brokers(self, brokers: Collection[int]) -> None:
        properties = {
            broker: broker_properties(
                broker,
                rack=self.brokers[broker],
                port=self._ports[broker],
                zookeeper=self.zookeeper,
                data=self.folder / f"data-{broker}",
                brokers=len(self.brokers),
                overrides=self._broker_config | self._own_config.get(broker, {}),
            )
            for broker in brokers
        }
        self._layout.start_brokers(properties)
        self._wait("ZooKeeper answers", self.zookeeper_is_running, brokers)
        with zookeeper_topics.open_client(self.zookeeper) as client:
            joined = f"brokers {sorted(brokers)} are registered"
            self._wait(joined, lambda: zookeeper_topics.read_registered(client).issuperset(brokers), brokers)
            controller = "there is a controller"
            self._wait(controller, lambda: zookeeper_topics.read_controller(client) is not None, brokers)

    @staticmethod
    def _has_left(client: Any, broker: int) -> bool:
        registered = zookeeper_topics.read_registered(client)
        controller = zookeeper_topics.read_controller(client)
        return broker not in registered and controller != broker and (controller is not None or not registered)

    def _wait(self, what: str, holds: Callable[[], bool], brokers: Collection[int] = ()) -> None:
        give_up = time.monotonic() + WAIT_SECONDS
        while not holds():
            self._layout.check_alive(brokers)
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
        if running is not None and self._layout.is_running(broker) != running:
            raise LocalClusterError(f"Broker {broker} {'does not run' if running else 'runs'}. Nothing was done.")

    def _write_state(self, folder: Path, layout: SeparateJvms) -> None:
        state = {
            "format_version": STATE_VERSION,
            "version": self.version,
            "racks": self._racks,
            "zookeeper_port": self._zookeeper_ports[1],
            "brokers": [
                {"id": id_, "rack": rack, "port": self._ports[id_], "config": self._own_config.get(id_, {})}
                for id_, rack in self.brokers.items()
            ],
            "broker_config": self._broker_config,
            "processes": {name: [process.pid, process.started] for name, process in layout.running.items()},
        }
        draft = folder / f".{STATE_FILE}"
        draft.write_text(json.dumps(state, indent=1), encoding="utf-8")
        os.replace(draft, folder / STATE_FILE)


def _read_state(folder: Path) -> dict[str, Any]:
    path = folder / STATE_FILE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LocalClusterError(
            f"There is no cluster in {folder} (no {STATE_FILE}). Nothing was done. Start one with `up`."
        ) from None
    except (OSError, ValueError) as error:
        raise LocalClusterError(f"{path} cannot be read: {error}. Nothing was done.") from error
    if not isinstance(state, dict) or state.get("format_version") != STATE_VERSION:
        raise LocalClusterError(
            f"{path} does not have format version {STATE_VERSION}. Nothing was done. "
            "Use the version of this package that started the cluster."
        )
    return state
