"""Spark's master and worker of docker-compose.yaml, started by their own commands as processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kafka_rebalance.local_cluster.machine.ports import free_ports
from support.compose import SERVICES, is_healthy, local_command
from support.waiting import wait

START_SECONDS = 90


@dataclass
class Standalone:
    """Starts what a test asks for. `environment` has Java and Python."""

    environment: Mapping[str, str]
    folder: Path
    ports: list[int] = field(default_factory=lambda: free_ports(3))

    @property
    def address(self) -> dict[str, str]:
        return {"spark-master": "127.0.0.1", "7077": str(self.ports[0])}

    def is_healthy(self, service: str) -> bool:
        page = {"http://spark-master:8080": f"http://127.0.0.1:{self.ports[1]}"}
        return is_healthy(service, self.address if service == "spark-master" else page)

    @contextmanager
    def running(self, service: str) -> Iterator[subprocess.Popen[bytes]]:
        """The service, from its first good healthcheck on."""
        pages = {"SPARK_MASTER_WEBUI_PORT": str(self.ports[1]), "SPARK_WORKER_WEBUI_PORT": str(self.ports[2])}
        own = SERVICES[service]["environment"]
        if "SPARK_WORKER_DIR" in own:
            own = {**own, "SPARK_WORKER_DIR": str(self.folder / "work")}
        log = self.folder / f"{service}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                local_command(SERVICES[service]["command"], self.address),
                env={**self.environment, **pages, **own},
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            wait(f"the healthcheck of {service} ends with 0 ({log})", lambda: self.is_healthy(service), START_SECONDS)
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)
