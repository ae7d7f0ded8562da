"""docker-compose.yaml, and its commands as processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yaml").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
BROKERS = tuple(sorted(name for name in SERVICES if name.startswith("broker-")))
# The image has one Python, and its programs are on PATH.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def mebibytes(limit: str) -> int:
    """Of a `mem_limit`."""
    return int(limit[:-1]) * {"m": 1, "g": 1024}[limit[-1]]


def local_command(command: list[str], here: Mapping[str, str]) -> list[str]:
    """The command with addresses of this machine in place of the containers' ones. All of these must be in it."""
    for container in here:
        assert any(container in word for word in command), f"{container} is not in {command}"
    for container, local in here.items():
        command = [word.replace(container, local) for word in command]
    return command


def is_healthy(service: str, here: Mapping[str, str]) -> bool:
    """Whether the service's healthcheck ends with 0 on this machine, within its own timeout."""
    check = SERVICES[service]["healthcheck"]
    kind, *command = check["test"]
    assert kind == "CMD"
    try:
        ended = subprocess.run(
            local_command(command, here),
            env={"PATH": PATH},
            capture_output=True,
            timeout=float(check["timeout"].removesuffix("s")),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0
