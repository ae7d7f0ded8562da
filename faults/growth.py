"""What a rebalance leaves behind: on the cluster, below `runs_url`, in our processes. None of it may grow.

A figure has a limit, which is what is documented. Everything is counted without any code of the product.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import psutil
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from faults.cases import Case, Fault
from faults.clusters.fault_cluster import BROKERS
from faults.clusters.zookeeper_cluster import ZooKeeperFaultCluster
from faults.ours.environment import CONNECTION
from faults.ours.processes import ROOT, Triggerer

OF_TOPICS = ("/brokers/topics", "/config/topics")  # each child belongs to a topic
CHANGES = "/config/changes"
# Brokers remove a notification when the next one comes and it is older than this (`changeExpirationMs`).
CHANGES_STAY_MS = 15 * 60 * 1000
# docs/architecture.md, "Where state lives". Kafka keeps a broker's config, also an empty one.
ZNODES = ("/kafka_rebalance", "/kafka_rebalance/lease", *(f"/config/brokers/{broker}" for broker in BROKERS))
LEDGER_TABLES = 7  # docs/tables.md
# A process that is killed while it writes leaves the file that it has not renamed yet; with the run's folder it goes.
KILL_OURS, KILLS = (
    frozenset({Fault.WORKER, Fault.TRIGGERER, Fault.EVERYTHING, Fault.CLOCK_AHEAD, Fault.CLOCK_BEHIND}),
    2,
)
MEMORY_MB = 40  # by which a process that follows batches may grow after its first one
# Once in a process: matplotlib's two fonts; the threads of pyarrow's pools, two for the cores and eight for files.
TASK_LEAVES = {"descriptors": 2, "threads": 10}
SETTLE_SECONDS = 20.0  # servers notice the end of a killed process, and the controller removes its notifications
RUN_FILES = ROOT / "docs" / "architecture.md"


@dataclass(frozen=True, slots=True)
class Figure:
    """`most` is the limit. `too_much` names what is beyond it, where that has names."""

    name: str
    value: int
    most: int | None
    too_much: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        """Empty if the figure is within its limit, or has none."""
        if self.most is None or self.value <= self.most:
            return ""
        return f"{self.name}: {self.value}, at most {self.most} are documented {' '.join(self.too_much[:5])}".strip()


class Growth:
    """Measures after each rebalance. The first look, before any rebalance, says what was there."""

    def __init__(self, cluster: ZooKeeperFaultCluster, runs: Path, triggerer: Triggerer) -> None:
        self._cluster, self._runs, self._triggerer = cluster, runs, triggerer
        self._znodes = frozenset(_znodes(cluster.client))
        self._throttles = cluster.throttles()
        self._first: dict[int, tuple[int, ...]] = {}  # by pid, what the process held after its first batch
        self._kills = 0

    def measure(self, case: Case, place: Path) -> tuple[Figure, ...]:
        """All figures, after a rebalance whose processes have left their outcomes in `place`."""
        self._kills += KILLS if case.fault in KILL_OURS else 0
        servers = lambda: (*self._znode_figures(), *self._connections())  # noqa: E731
        return (*_settled(servers), *self._files(), *self._follower(), *_tasks(place))

    def _znode_figures(self) -> Iterator[Figure]:
        client = self._cluster.client
        found = frozenset(_znodes(client))
        added = [path for path in found - self._znodes if not path.startswith(f"{CHANGES}/")]
        strange = tuple(sorted(path for path in added if path not in ZNODES))
        known = [path for path in self._znodes if not path.startswith(f"{CHANGES}/")]
        yield Figure("znodes outside those of topics", len(known) + len(added), len(known) + len(ZNODES), strange)
        yield Figure("of these, not documented", len(strange), 0, strange)
        written = sorted(_created_ms(client, path) for path in found if path.startswith(f"{CHANGES}/"))
        old = sum(at < written[-1] - CHANGES_STAY_MS for at in written)
        yield Figure("notifications of changed configs", len(written), None)
        yield Figure("of these, older than 15 min", old, 0)
        topics = set(client.get_children(OF_TOPICS[0]))
        orphans = tuple(sorted(set(client.get_children(OF_TOPICS[1])) - topics))
        yield Figure("configs of topics that are gone", len(orphans), 0, orphans)
        throttles = self._cluster.throttles()
        more = tuple(sorted(entity for entity, keys in throttles.items() if keys != self._throttles.get(entity)))
        yield Figure("throttle configs that were not there before", len(more), 0, more)

    def _connections(self) -> Iterator[Figure]:
        """What servers hold open with anybody but each other and the client that watches them here."""
        zookeepers = {int(one.rpartition(":")[2]) for one in self._cluster.local.zookeeper.split(",")}
        brokers = {int(one.rpartition(":")[2]) for one in self._cluster.local.bootstrap_servers.split(",")}
        found = [
            one for one in psutil.net_connections("tcp") if one.raddr and one.status in ("ESTABLISHED", "CLOSE_WAIT")
        ]
        servers = {one.pid for one in found if one.laddr.port in zookeepers | brokers}
        familiar = {one.laddr.port for one in found if one.pid in servers or one.pid == psutil.Process().pid}
        held = Counter(one.laddr.port for one in found if one.pid in servers and one.raddr.port not in familiar)
        yield Figure("connections of brokers with our processes", sum(held[port] for port in brokers), 0)
        yield Figure("connections of ZooKeeper with our processes", sum(held[port] for port in zookeepers), 0)
        yield Figure("watches of our processes", sum(_watches(port, self._known_sessions()) for port in zookeepers), 0)

    def _known_sessions(self) -> frozenset[int]:
        client = self._cluster.client
        brokers = [client.exists(f"/brokers/ids/{broker}") for broker in BROKERS]
        return frozenset({client.client_id[0], *(stat.ephemeralOwner for stat in brokers if stat)})

    def _files(self) -> Iterator[Figure]:
        runs = [run for run in sorted(self._runs.glob(f"{CONNECTION}/*")) if run.is_dir()]
        files = {run: [file for file in run.rglob("*") if file.is_file()] for run in runs}
        documented = documented_names(RUN_FILES.read_text(encoding="utf-8"))
        # run / attempt / file, or a folder of files
        names = {file.relative_to(run).parts[1] for run, held in files.items() for file in held if not _is_part(file)}
        strange = tuple(sorted(name for name in names if not any(fnmatch(name, one) for one in documented)))
        yield Figure(
            "files of a run, the most", max((len(held) for held in files.values()), default=0), len(documented)
        )
        yield Figure("files of runs that are not documented", len(strange), 0, strange)
        ledger = Counter(file.stem for file in self._runs.glob("ledger/**/*.parquet"))
        yield Figure("files of a run in the ledger, the most", max(ledger.values(), default=0), LEDGER_TABLES)
        leases, locks = (list((self._runs / of).rglob("*.json")) for of in ("leases", "locks"))
        yield Figure("lease files", len(leases), 1, tuple(file.name for file in leases))
        yield Figure("notes of locks", len(locks), 1, tuple(file.name for file in locks))
        known = ("leases", "locks", "ledger", CONNECTION)
        rest = [
            file
            for file in self._runs.rglob("*")
            if file.is_file() and file.relative_to(self._runs).parts[0] not in known
        ]
        yield Figure("other files below runs_url", len(rest), 2, tuple(file.name for file in rest))
        parts = tuple(file.name for file in self._runs.rglob("*") if _is_part(file))
        yield Figure("files that a kill left half written", len(parts), self._kills, parts)

    def _follower(self) -> Iterator[Figure]:
        pid = self._triggerer.pid
        if pid is None:
            return  # killed; the next batch starts another one
        held = held_by(pid)
        yield from held_figures("by the process that follows batches", held, self._first.setdefault(pid, held))


def held_by(pid: int) -> tuple[int, int, int]:
    """MB of memory, descriptors and threads of a process."""
    process = psutil.Process(pid)
    return process.memory_info().rss // 1_000_000, process.num_fds(), process.num_threads()


def held_figures(what: str, held: Sequence[int], first: Sequence[int]) -> Iterator[Figure]:
    """`first`: what the same process held at first. Python gives memory back when it likes."""
    for kind, now, then, more in zip(("MB", "descriptors", "threads"), held, first, (MEMORY_MB, 0, 0), strict=True):
        yield Figure(f"{kind} held {what}", now, then + more)


def _tasks(place: Path) -> Iterator[Figure]:
    """What the processes of a rebalance still held at their ends, beyond what they held at their beginnings."""
    outcomes = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(place.glob("*.json"))]
    for kind, of_libraries in TASK_LEAVES.items():
        most = max((one["left"][kind] for one in outcomes), default=0)
        yield Figure(f"{kind} open at the end of a task, the most", most, of_libraries)


def _settled(measure: Callable[[], Sequence[Figure]]) -> Sequence[Figure]:
    """The figures as soon as all are within their limits, else those at the end of the time."""
    give_up = time.monotonic() + SETTLE_SECONDS
    while growth_problems(found := measure()) and time.monotonic() < give_up:
        time.sleep(0.5)
    return found


def _znodes(client: KazooClient, path: str = "/") -> Iterator[str]:
    """Every path, without what is below a topic's own."""
    try:
        names = client.get_children(path)
    except NoNodeError:
        return
    for name in names:
        child = f"{path.rstrip('/')}/{name}"
        if path not in OF_TOPICS and child != "/zookeeper":
            yield child
            yield from _znodes(client, child)


def _created_ms(client: KazooClient, path: str) -> int:
    stat = client.exists(path)
    return stat.ctime if stat else 0


def _watches(port: int, known: frozenset[int]) -> int:
    """Watches of sessions that are not known, by the server's own list (`wchc`)."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as asked:
        asked.sendall(b"wchc")
        answer = b"".join(iter(lambda: asked.recv(65_536), b"")).decode()
    session, found = 0, 0
    for line in answer.splitlines():
        if line.startswith("0x"):
            session = int(line, 16)
        elif line.strip() and session not in known:
            found += 1
    return found


def _is_part(file: Path) -> bool:
    return file.name.endswith(".part")


def documented_names(page: str) -> frozenset[str]:
    """Patterns of the files and folders of a run that the page names, like `moves/` and `moves-<candidate>.csv`."""
    quoted = (re.sub("<[^>]*>", "*", one) for one in re.findall(r"`([^`\s]+)`", page))
    return frozenset(one.split("/")[0] for one in quoted if re.search(r"/$|\.(json|parquet|csv|html|zip)$", one))


def growth_problems(figures: Sequence[Figure]) -> list[str]:
    return [problem for figure in figures if (problem := figure.problem)]


def rows(measured: Sequence[Sequence[Figure]]) -> Iterator[tuple[str, int, int, int, int | None]]:
    """(name, first, last, highest, the last limit) of each figure."""
    by_name: dict[str, list[Figure]] = {}
    for figures in measured:
        for figure in figures:
            by_name.setdefault(figure.name, []).append(figure)
    for name, found in by_name.items():
        yield name, found[0].value, found[-1].value, max(figure.value for figure in found), found[-1].most
