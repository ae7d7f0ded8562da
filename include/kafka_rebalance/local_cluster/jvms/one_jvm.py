"""ZooKeeper and all brokers in one JVM, driven by py4j. It starts fast and stays small; no broker can be killed."""

import signal
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.jvms.gateway import MAIN, open_gateway
from kafka_rebalance.local_cluster.jvms.runtime import Runtime
from kafka_rebalance.local_cluster.jvms.server_settings import ZOOKEEPER_TICK_MS, Peer, write_properties
from kafka_rebalance.local_cluster.machine.processes import Guard, Process, last_lines, start_process

_WITH_BACKLOG = 6  # from ZooKeeper 3.6 on, a listener with TLS has one


class OneJvm:
    """The fast layout. Its methods are those of `SeparateJvms`."""

    def __init__(self, folder: Path, runtime: Runtime, guard: Guard | None) -> None:
        self._folder = folder
        self._log = folder / "kafka.log"
        self._output = folder / "jvm.out"
        self._servers: dict[int, Any] = {}
        command = runtime.command("1g", folder, self._log, MAIN)
        self._process: Process = start_process(command, self._output, guard, hold_stdin=True)
        self._gateway: Any = open_gateway(self._output, self.check_alive)

    def start_zookeepers(self, ports: Mapping[int, int], ensemble: Mapping[int, Peer], *, tls: bool = False) -> None:
        """Start the only server. `LocalCluster` has refused an ensemble here: each of its servers needs a JVM."""
        (port,) = ports.values()
        data = self._folder / "zookeeper"
        data.mkdir(exist_ok=True)
        jvm = self._gateway.jvm
        file = jvm.java.io.File(str(data))
        server = jvm.org.apache.zookeeper.server.ZooKeeperServer(file, file, ZOOKEEPER_TICK_MS)
        connections = jvm.org.apache.zookeeper.server.ServerCnxnFactory.createFactory()
        address = jvm.java.net.InetSocketAddress("127.0.0.1", port)
        if not tls:
            connections.configure(address, 0)
        elif jvm.org.apache.zookeeper.version.Info.MINOR < _WITH_BACKLOG:
            connections.configure(address, 0, tls)
        else:
            connections.configure(address, 0, -1, tls)
        connections.startup(server)

    def format_storage(self, cluster_id: str, properties: Mapping[int, Mapping[str, str]]) -> None:
        """Make the folders that these server.properties name part of the cluster, as kafka-storage.sh does."""
        jvm = self._gateway.jvm
        for node, values in properties.items():
            config = write_properties(self._folder / f"node-{node}.properties", values)
            # With the equals sign: an id may begin with a hyphen.
            words = self._array(jvm.java.lang.String, ["format", f"--cluster-id={cluster_id}", "-c", str(config)])
            code = jvm.kafka.tools.StorageTool.execute(words, jvm.java.lang.System.err)
            if code:
                raise LocalClusterError(f"{config} could not be formatted: kafka-storage ended with {code}.")

    def start_brokers(self, properties: Mapping[int, Mapping[str, str]]) -> None:
        # A py4j call blocks its thread. py4j gives each Python thread its own thread in the JVM.
        with ThreadPoolExecutor(max_workers=len(properties)) as pool:
            servers = pool.map(self._start_broker, properties, properties.values())
            self._servers.update(zip(properties, servers, strict=True))

    def stop_broker(self, broker: int) -> None:
        server = self._servers.pop(broker)
        server.shutdown()
        server.awaitShutdown()

    def signal_zookeeper(self, server: int, number: signal.Signals) -> None:
        raise _shared(f"ZooKeeper {server}", number)

    def signal_broker(self, broker: int, number: signal.Signals) -> None:
        raise _shared(f"Broker {broker}", number)

    def is_running(self, broker: int) -> bool:
        return broker in self._servers and self._process.is_alive()

    def check_alive(self, brokers: Collection[int] = ()) -> None:
        if not self._process.is_alive():
            raise LocalClusterError(f"The cluster's JVM ended by itself. {last_lines(self._log)} {self._say()}")

    def exit(self) -> None:
        """Let the JVM end in the ordinary way, which takes longer than `close`."""
        self._gateway.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        if not self._process.wait():
            raise LocalClusterError(f"The JVM did not end. {self._say()}")

    def close(self) -> None:
        self._gateway.close()
        self._process.end(signal.SIGKILL)

    def _say(self) -> str:
        return last_lines(self._output)

    def _start_broker(self, broker: int, values: Mapping[str, str]) -> Any:
        from py4j.protocol import Py4JJavaError

        jvm = self._gateway.jvm
        properties = jvm.java.util.Properties()
        for key, value in values.items():
            properties.setProperty(key, value)
        try:
            if "process.roles" in values:
                config, clock = jvm.kafka.server.KafkaConfig(properties), jvm.org.apache.kafka.common.utils.Time.SYSTEM
                server = jvm.kafka.server.KafkaRaftServer(config, clock)
            else:
                server = self._new_server(jvm.kafka.server.KafkaConfig.fromProps(properties))
            server.startup()
        except Py4JJavaError as error:
            raise LocalClusterError(
                f"Broker {broker} did not start: {error.java_exception}. {last_lines(self._log)}"
            ) from error
        return server

    def _new_server(self, config: Any) -> Any:
        """A KafkaServer. Its constructor ends in (…, Option, Seq) in 2.0 and in (…, Option, boolean) later."""
        jvm = self._gateway.jvm
        constructor = jvm.java.lang.Class.forName("kafka.server.KafkaServer").getConstructors()[0]
        arguments: list[Any] = []
        for parameter in constructor.getParameterTypes():
            name = parameter.getName()
            if name.endswith("KafkaConfig"):
                arguments.append(config)
            elif name == "boolean":
                arguments.append(False)
            elif name == "scala.Option":
                arguments.append(jvm.scala.Option.empty())
            elif "Seq" in name:
                arguments.append(getattr(getattr(jvm.scala.collection.immutable, "Nil$"), "MODULE$"))
            else:
                arguments.append(jvm.org.apache.kafka.common.utils.Time.SYSTEM)
        return constructor.newInstance(self._array(jvm.java.lang.Object, arguments))

    def _array(self, of: Any, items: list[Any]) -> Any:
        """A Java array."""
        array = self._gateway.new_array(of, len(items))
        for index, item in enumerate(items):
            array[index] = item
        return array


def _shared(server: str, number: signal.Signals) -> LocalClusterError:
    done = "killed" if number is signal.SIGKILL else "frozen"
    return LocalClusterError(
        f"{server} shares its JVM with the whole cluster and cannot be {done}; it still runs. "
        "Use LocalCluster(one_jvm=False)."
    )
