"""Ports for servers on loopback."""

import random
import socket
from collections import deque
from collections.abc import Collection

from kafka_rebalance.local_cluster.errors import LocalClusterError

# Below the range from which Linux takes ports for outgoing connections (from 32768 on). So a broker that starts again
# finds its port free.
PORTS = range(20_000, 32_000)
# A server binds its port seconds after it was drawn. Until then the UDP port of the same number says to other processes
# that it is taken. It ends with the process, and no server of ours speaks UDP.
_CLAIMS_KEPT = 200
_claims: deque[socket.socket] = deque()
# A client of a cluster that has ended may still look for it, so no other cluster of this process gets its ports.
_drawn: set[int] = set()


def free_port(taken: Collection[int] = ()) -> int:
    """A port on which nobody listens, which no other process has drawn lately, and this one never.

    It is drawn at random, so that clusters that start together do not collide.
    """
    for port in random.SystemRandom().sample(PORTS, 200):
        if port in taken or port in _drawn:
            continue
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        _drawn.add(port)
        _claims.append(claim)
        if len(_claims) > _CLAIMS_KEPT:
            _claims.popleft().close()
        return port
    raise LocalClusterError(
        f"No free port was found between {PORTS.start} and {PORTS.stop}. Nothing was started. End other servers."
    )


def free_ports(count: int) -> list[int]:
    """So many different ports on which nobody listens."""
    found: list[int] = []
    while len(found) < count:
        found.append(free_port(found))
    return found


def accepts_connections(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
