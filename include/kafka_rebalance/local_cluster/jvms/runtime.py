"""The Java, class path and options that every JVM of a cluster shares."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_rebalance.local_cluster.jvms.server_settings import JVM_OPTIONS, write_log4j, write_log4j2


@dataclass(frozen=True, slots=True)
class Runtime:
    """Java and class path of a Kafka version; `options` are JVM options beyond the usual ones."""

    java: Path
    class_path: tuple[Path, ...]
    options: tuple[str, ...] = ()

    def command(self, heap: str, folder: Path, log: Path, main: Sequence[str]) -> list[str]:
        """A command line that logs to `log`; `main` is the main class and its arguments."""
        logging = [
            f"-Dlog4j.configuration=file:{write_log4j(folder)}",  # before Kafka 4
            f"-Dlog4j2.configurationFile={write_log4j2(folder)}",
            f"-Dlocal.cluster.log={log}",
        ]
        class_path = ":".join(map(str, self.class_path))
        return [str(self.java), f"-Xmx{heap}", *JVM_OPTIONS, *self.options, *logging, "-cp", class_path, *main]
