"""A real metrics server on this machine: VictoriaMetrics, with Prometheus' HTTP API, TLS and a password."""

from __future__ import annotations

import base64
import os
import shutil
import ssl
import subprocess
import tempfile
from pathlib import Path
from typing import Self
from urllib.error import URLError
from urllib.request import Request, urlopen

from kafka_rebalance.local_cluster.machine.ports import free_port
from kafka_rebalance.local_cluster.machine.processes import Guard
from kafka_rebalance.local_cluster.security.certificates import Authority
from support.waiting import wait

PROGRAM = os.environ.get("VICTORIA_METRICS") or shutil.which("victoria-metrics")
USER, PASSWORD = "olive", "hunter2-s3cret"


class VictoriaMetrics:
    """`with VictoriaMetrics() as server` starts it. It ends, and its folder goes, with the block."""

    def __init__(self) -> None:
        self.url = f"https://127.0.0.1:{free_port()}"
        self._folder = Path(tempfile.mkdtemp(prefix="kafka-rebalance-metrics-"))
        self._guard = Guard([self._folder])  # also if this Python is killed
        authority = Authority(self._folder, "authority")
        self.ca = str(authority.certificate)
        self._issued = authority.issue("metrics", ["127.0.0.1"])

    def __enter__(self) -> Self:
        assert PROGRAM is not None
        options = {
            "storageDataPath": self._folder / "data",
            "httpListenAddr": self.url.removeprefix("https://"),
            "retentionPeriod": "60d",
            "httpAuth.username": USER,
            "httpAuth.password": PASSWORD,
            "tlsCertFile": self._issued.certificate,
            "tlsKeyFile": self._issued.key,
        }
        arguments = [PROGRAM, "-tls", *(f"-{name}={value}" for name, value in options.items())]
        with (self._folder / "log").open("wb") as log:
            self._server = subprocess.Popen(arguments, stdout=log, stderr=log, process_group=self._guard.group)
        wait("VictoriaMetrics answers", self._answers)
        return self

    def __exit__(self, *_: object) -> None:
        self._guard.close()
        self._server.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def take(self, lines: bytes) -> None:
        """Samples in Prometheus' text format, with times in milliseconds; visible to queries afterwards."""
        self._call("/api/v1/import/prometheus", lines)
        self._call("/internal/force_flush")

    def _answers(self) -> bool:
        assert self._server.poll() is None, (self._folder / "log").read_text()
        try:
            return self._call("/health") == b"OK"
        except URLError:
            return False

    def _call(self, path: str, body: bytes | None = None) -> bytes:
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        asked = Request(f"{self.url}{path}", body, {"Authorization": f"Basic {login}"})
        with urlopen(asked, timeout=30, context=ssl.create_default_context(cafile=self.ca)) as answer:
            content: bytes = answer.read()
        return content
