"""The jars of each Kafka version, by name and sha256.

A lock file has one line for each jar, `sha256  group:artifact:version[:classifier]`, sorted by name. It is
the whole class path: nothing is resolved when a cluster starts. `make_lock` writes lock files.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from kafka_rebalance.local_cluster.errors import LocalClusterError

DEFAULT_VERSION = "3.9.2"

# The artifacts from which a version's jars are resolved. Kafka 4 has no ZooKeeper, and logs by log4j 2.
# Kafka 2.0.1 asks for ZooKeeper 3.4, whose client cannot read
# the addresses of newer Javas (UnresolvedAddressException). 3.5.9 works with 2.0.1.
ROOTS: dict[str, tuple[str, ...]] = {
    "4.4.0": ("org.apache.kafka:kafka_2.13:4.4.0", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"),
    "3.9.2": ("org.apache.kafka:kafka_2.13:3.9.2", "org.slf4j:slf4j-reload4j:1.7.36"),
    "2.8.2": ("org.apache.kafka:kafka_2.13:2.8.2", "org.slf4j:slf4j-reload4j:1.7.36"),
    "2.0.1": (
        "org.apache.kafka:kafka_2.12:2.0.1",
        "org.apache.zookeeper:zookeeper:3.5.9",
        "org.slf4j:slf4j-log4j12:1.7.25",
    ),
}
KRAFT_VERSIONS = ("4.4.0", "3.9.2")  # that run without ZooKeeper
VERSIONS = tuple(version for version in ROOTS if not version.startswith("4."))  # that run with it
WITHOUT_PEM = ("2.0.1",)  # whose brokers read no PEM files (KIP-651 is of 2.7)

# From 3.3 on, kafka-topics, kafka-reassign-partitions and others have a jar of their own. Before, they were in the core
# jar. It is used beside the jars of the same version: its other dependencies serve Kafka Connect.
TOOLS = {"3.9.2": "org.apache.kafka:kafka-tools:3.9.2"}

# Remote storage in a folder of this machine, which Kafka's own tests use. Brokers load it from this jar by
# `remote.log.storage.manager.class.path`.
TIERED = {"3.9.2": "org.apache.kafka:kafka-storage:3.9.2:test"}

# Spark's Kafka source, and those of its dependencies that Spark's own jars lack. The token provider has a release for
# each of Spark's, but some mirrors of Maven Central stop at 4.0.0. The source runs with that one.
SPARK_SOURCE = {
    "4.2.0": (
        "org.apache.commons:commons-pool2:2.13.1",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    )
}

# Locks of exactly these jars, without their dependencies.
ALONE = {
    **{f"tools-{version}": (tools,) for version, tools in TOOLS.items()},
    **{f"tiered-{version}": (storage,) for version, storage in TIERED.items()},
    **{f"spark-{version}": names for version, names in SPARK_SOURCE.items()},
}

_LINE = re.compile(r"([0-9a-f]{64})  ([\w.-]+):([\w.-]+):([\w.-]+?)(?::([\w.-]+))?")


@dataclass(frozen=True, slots=True, order=True)
class Jar:
    """One jar of a lock file."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""  # of one of several jars that an artifact has

    @property
    def name(self) -> str:
        """`group:artifact:version`, as Maven and Ivy know it, with `:classifier` where there is one."""
        return ":".join(filter(None, (self.group, self.artifact, self.version, self.classifier)))

    @property
    def file_name(self) -> str:
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + ".jar"


def lock_path(version: str) -> Path:
    """The project's lock file of a Kafka version, or of a name in `ALONE`."""
    return Path(__file__).with_name("locks") / f"kafka-{version}.lock"


def read_lock(path: Path) -> tuple[Jar, ...]:
    """The jars of a lock file, in its order."""
    jars = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        found = _LINE.fullmatch(line)
        if found is None:
            raise LocalClusterError(
                f"{path}, line {number} is not `sha256  group:artifact:version[:classifier]`: {line!r}. "
                "Nothing was fetched. Restore the file from the repository."
            )
        jars.append(Jar(found[2], found[3], found[4], sha256=found[1], classifier=found[5] or ""))
    return tuple(jars)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
