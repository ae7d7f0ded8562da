"""Settings of ZooKeeper, the brokers and their JVMs. Servers stay small, start fast and notice a death quickly."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# Serial GC and the first compiler only, because a cluster lives for minutes and starting is most of its work.
JVM_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    # Not needed, because each jar has the lock file's sha256. Verifying its classes again takes a fifth of the start.
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    "-Djava.awt.headless=true",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.4lw.commands.whitelist=*",
)

LOG4J = """log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File=${local.cluster.log}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.org.apache.zookeeper=WARN
log4j.logger.state.change.logger=WARN
log4j.logger.kafka.server.KafkaConfig=WARN
# Brokers in one JVM share their JMX names. Each broker would log that with a stack trace.
log4j.logger.com.yammer.metrics.reporting.JmxReporter=ERROR
"""

# Kafka 4 logs by log4j 2.
LOG4J2 = """appender.file.type=File
appender.file.name=file
appender.file.fileName=${sys:local.cluster.log}
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.file.ref=file
logger.state.name=state.change.logger
logger.state.level=WARN
"""

# ZooKeeper's sessions last at least two ticks. The brokers below ask for four seconds.
ZOOKEEPER_TICK_MS = 1000

# Of brokers and controllers alike, from 3.4 to 3.9.
MIGRATION = {"zookeeper.metadata.migration.enable": "true"}


class Peer(NamedTuple):
    """The ports by which one server of a ZooKeeper ensemble is known to the others."""

    port: int
    election_port: int


def zookeeper_properties(
    folder: Path, port: int, ensemble: Mapping[int, Peer] | None = None, *, tls: bool = False
) -> str:
    """A zoo.cfg for one server on loopback. `ensemble` names every server, also this one. `tls` is for its clients."""
    name = "secureClientPort" if tls else "clientPort"
    lines = [
        f"dataDir={folder}",
        f"{name}={port}",
        f"{name}Address=127.0.0.1",
        f"tickTime={ZOOKEEPER_TICK_MS}",
        "maxClientCnxns=0",
        "admin.enableServer=false",
        "4lw.commands.whitelist=*",
    ]
    if ensemble:
        lines += ["initLimit=10", "syncLimit=5"]
        lines += [f"server.{number}=127.0.0.1:{peer.port}:{peer.election_port}" for number, peer in ensemble.items()]
    return "\n".join(lines) + "\n"


def broker_properties(
    broker: int,
    *,
    rack: str | None,
    port: int,
    registry: Mapping[str, str],
    data: Path,
    brokers: int,
    overrides: Mapping[str, str],
) -> dict[str, str]:
    """A broker's server.properties. `registry` are those of the mode: how it finds ZooKeeper, or the controllers.

    `{data}`, `{id}` and `{port}` in `overrides` are replaced by the broker's own, `{was}` by the property's value, and
    `{port+1}` to `{port+3}` by ports after its own, for more listeners on other loopback addresses.
    """
    replicas = str(min(3, brokers))
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(data),
        # Topics are made when a client asks for them, as Kafka's default is. Only a test or a tool changes leaders.
        "auto.create.topics.enable": "true",
        "auto.leader.rebalance.enable": "false",
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "log.cleaner.dedupe.buffer.size": "4194304",
        "replica.lag.time.max.ms": "3000",
        # A follower fetches a new partition only after the answer to its last fetch, and backs off from a broker that
        # does not lead yet. With the defaults (500 ms and 1 s) a new topic takes up to 1.5 s to acknowledge. At 100 ms
        # the fetches of a cluster that does nothing take a third more of the processor.
        "replica.fetch.wait.max.ms": "250",
        "replica.fetch.backoff.ms": "100",
        "controlled.shutdown.retry.backoff.ms": "500",
        **registry,
    }
    if rack is not None:
        properties["broker.rack"] = rack
    for key, value in overrides.items():
        own = value.replace("{data}", str(data)).replace("{id}", str(broker)).replace("{port}", str(port))
        for more in (1, 2, 3):
            own = own.replace(f"{{port+{more}}}", str(port + more))
        properties[key] = own.replace("{was}", properties.get(key, ""))
    return properties


def zookeeper_settings(broker: int, zookeeper: str) -> dict[str, str]:
    """What a broker in ZooKeeper mode needs to register."""
    return {
        "broker.id": str(broker),
        "zookeeper.connect": zookeeper,
        "zookeeper.session.timeout.ms": "4000",
        "zookeeper.connection.timeout.ms": "30000",
    }


def kraft_settings(node: int, port: int | None, controllers: Mapping[int, int], metadata: Path) -> dict[str, str]:
    """What a node in KRaft mode needs: a broker on `port`, or none, and a controller where it is one of them.

    `controllers` are {node: port}. The metadata log has a folder of its own: a node ends when the log dir with its
    metadata fails.
    """
    roles = [role for role, has in (("broker", port is not None), ("controller", node in controllers)) if has]
    listeners = [f"PLAINTEXT://127.0.0.1:{port}"] if port is not None else []
    listeners += [f"CONTROLLER://127.0.0.1:{controllers[node]}"] if node in controllers else []
    return {
        "node.id": str(node),
        "process.roles": ",".join(roles),
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": ",".join(f"{one}@127.0.0.1:{at}" for one, at in controllers.items()),
        "metadata.log.dir": str(metadata),
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "500",
        # Without other records the quorum writes one so often, which tells how far brokers are (the default is 500).
        "metadata.max.idle.interval.ms": "100",
        "controller.quorum.election.timeout.ms": "500",
        "controller.quorum.fetch.timeout.ms": "1000",
    }


def migration_settings(quorum: Mapping[str, str]) -> dict[str, str]:
    """What a broker in ZooKeeper mode needs beside its own settings, to follow a quorum whose nodes have `quorum`."""
    shared = ("controller.listener.names", "listener.security.protocol.map", "controller.quorum.voters")
    return {key: quorum[key] for key in (*shared, "metadata.log.dir")} | MIGRATION


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
    return path


def write_log4j(folder: Path) -> Path:
    path = folder / "log4j.properties"
    path.write_text(LOG4J, encoding="utf-8")
    return path


def write_log4j2(folder: Path) -> Path:
    path = folder / "log4j2.properties"
    path.write_text(LOG4J2, encoding="utf-8")
    return path
