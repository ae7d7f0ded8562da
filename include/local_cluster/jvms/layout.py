"""How the servers are spread over JVMs, and what both ways can do."""

from collections.abc import Collection, Mapping
from typing import Protocol

from local_cluster.jvms.server_settings import Peer

Properties = Mapping[str, str]


class Layout(Protocol):
    """ZooKeeper and brokers, by broker id. Nothing here waits for a registration in ZooKeeper."""

    def start_zookeepers(self, ports: Mapping[int, int], ensemble: Mapping[int, Peer]) -> None:
        """Start these servers, client ports by number; `ensemble` has all servers, and none where there is but one."""

    def kill_zookeeper(self, server: int) -> None:
        """kill -9."""

    def freeze_zookeeper(self, server: int) -> None:
        """SIGSTOP: it keeps its connections and answers nothing."""

    def thaw_zookeeper(self, server: int) -> None:
        """SIGCONT."""

    def start_brokers(self, properties: Mapping[int, Properties]) -> None:
        """Start several at once."""

    def stop_broker(self, broker: int) -> None:
        """A controlled shutdown: leaders are moved away first."""

    def kill_broker(self, broker: int) -> None:
        """kill -9."""

    def freeze_broker(self, broker: int) -> None:
        """SIGSTOP: it keeps its connections and answers nothing."""

    def thaw_broker(self, broker: int) -> None:
        """SIGCONT."""

    def is_running(self, broker: int) -> bool: ...

    def check_alive(self, brokers: Collection[int] = ()) -> None:
        """Raises with the log's end when ZooKeeper or one of these brokers has ended by itself."""

    def close(self) -> None:
        """End everything at once."""
