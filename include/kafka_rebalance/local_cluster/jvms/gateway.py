"""Calls from Python into a JVM whose main class is py4j's server."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.machine.processes import last_lines

START_SECONDS = 60

# With the first option, the JVM ends when the pipe of its standard input is closed.
MAIN = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")


def open_gateway(output: Path, check_alive: Callable[[], None]) -> Any:
    """The gateway to a JVM that was started with `MAIN` and writes to `output`. Waits until the JVM answers.

    `check_alive` raises if the JVM has ended.
    """
    from py4j.java_gateway import GatewayParameters, JavaGateway

    give_up = time.monotonic() + START_SECONDS
    while True:
        # The JVM prints its port, then the token that callers must send.
        lines = output.read_text(encoding="utf-8", errors="replace").split("\n")
        said = [line for line in lines[:-1] if line and " " not in line]
        if len(said) >= 2 and said[0].isdigit():
            # Without py4j's finalizers: at each garbage collection they would call a JVM that may have ended.
            # The JVM lives for a short time and holds few objects.
            parameters = GatewayParameters(port=int(said[0]), auth_token=said[1], enable_memory_management=False)
            return JavaGateway(gateway_parameters=parameters)
        check_alive()
        if time.monotonic() > give_up:
            raise LocalClusterError(f"The JVM did not answer within {START_SECONDS} s. {last_lines(output)}")
        time.sleep(0.02)
