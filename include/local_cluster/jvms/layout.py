"""What a way to spread the servers over JVMs must be able to do. `OneJvm` and `SeparateJvms` are the two ways."""

import signal
from collections.abc import Collection, Mapping
from typing import Protocol

from local_cluster.jvms.server_settings import Peer

Properties = Mapping[str, str]


class Layout(Protocol):
    """ZooKeeper and brokers, by broker id. Nothing here waits for a registration in ZooKeeper."""

    def start_zookeepers(self, ports: Mapping[int, int], ensemble: Mapping[int, Peer]) -> None:
        """Start these servers, given as {number: client port}. `ensemble` names all servers; it is empty for one."""

    def signal_zookeeper(self, server: int, number: signal.Signals) -> None:
        """Send a signal; SIGKILL returns when the process is gone."""

    def start_brokers(self, properties: Mapping[int, Properties]) -> None:
        """Start several at once."""

    def stop_broker(self, broker: int) -> None:
        """A controlled shutdown: the broker first hands over its leaders."""

    def signal_broker(self, broker: int, number: signal.Signals) -> None:
        """Send a signal; SIGKILL returns when the process is gone."""

    def is_running(self, broker: int) -> bool: ...

    def check_alive(self, brokers: Collection[int] = ()) -> None:
        """Raises, with the end of the log, if ZooKeeper or one of these brokers has ended by itself."""

    def close(self) -> None:
        """End everything at once."""
