"""`python -m kafka_rebalance.local_cluster`: a cluster for experiments, which outlives the command."""

import argparse
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kafka_rebalance.local_cluster.cluster import LocalCluster
from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.jars.locked_jars import DEFAULT_VERSION, ROOTS
from kafka_rebalance.local_cluster.machine.cache import cache_folder
from kafka_rebalance.local_cluster.scenarios import SCENARIOS

_UP_DEFAULTS = {"version": DEFAULT_VERSION, "kraft": False, "brokers": 3, "racks": 3, "scenario": None}


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0, 1 after an error, 130 when interrupted."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if (
        options.command == "up"
        and options.add
        and any(getattr(options, name) != default for name, default in _UP_DEFAULTS.items())
    ):
        parser.error("--add goes with --folder only: the running cluster already has its version, racks and topics")
    folder = (options.folder or cache_folder() / "cluster").absolute()
    commands = {"up": _up, "status": _status, "down": _down, "kill": _kill, "start": _start}
    try:
        commands[options.command](folder, options)
    except LocalClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"Interrupted. `status --folder {shlex.quote(str(folder))}` shows what runs.", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kafka_rebalance.local_cluster", description=__doc__)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--folder", type=Path, help="holds data, logs and cluster.json (default: cluster/ in the cache folder)"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", parents=[shared], help="start the servers of a cluster, each in a JVM of its own")
    up.add_argument(
        "--version", choices=ROOTS, default=_UP_DEFAULTS["version"], help="Kafka's version (default: %(default)s)"
    )
    up.add_argument("--kraft", action="store_true", help="start controllers instead of ZooKeeper; Kafka 4 always does")
    up.add_argument(
        "--brokers",
        type=_positive,
        default=_UP_DEFAULTS["brokers"],
        metavar="N",
        help="number of brokers (default: %(default)s)",
    )
    up.add_argument(
        "--racks",
        type=_natural,
        default=_UP_DEFAULTS["racks"],
        metavar="N",
        help="number of racks, 0 for none (default: %(default)s)",
    )
    up.add_argument("--scenario", choices=sorted(SCENARIOS), help="create these topics and data")
    up.add_argument("--add", type=_positive, metavar="N", help="add N empty brokers to the running cluster")
    commands.add_parser("status", parents=[shared], help="show addresses and which servers run")
    commands.add_parser("down", parents=[shared], help="end every process and remove the folder")
    for name, text in (("kill", "kill -9 one broker"), ("start", "start a broker that was killed")):
        command = commands.add_parser(name, parents=[shared], help=text)
        command.add_argument("broker", type=int, help="the broker's id")
    return parser


def _positive(text: str) -> int:
    return _natural(text, least=1)


def _natural(text: str, least: int = 0) -> int:
    number = int(text)
    if number < least:
        raise argparse.ArgumentTypeError(f"{text} is not {least} or more")
    return number


def _up(folder: Path, options: argparse.Namespace) -> None:
    if options.add:
        cluster = LocalCluster.attach(folder, _say)
        for _ in range(options.add):
            broker = cluster.add_broker()
            _say(f"Broker {broker} runs in {cluster.brokers[broker]} and is empty.")
        return
    began = time.monotonic()
    cluster = LocalCluster(
        options.version,
        options.brokers,
        options.racks,
        kraft=options.kraft,
        folder=folder,
        detached=True,
        progress=_say,
    ).start()
    _say(f"The cluster runs after {time.monotonic() - began:.1f} s.")
    if options.scenario:
        _say(f"Producing {options.scenario} …")
        try:
            written = SCENARIOS[options.scenario](cluster)
        except BaseException:
            cluster.close()
            raise
        for topic, sizes in written.items():
            _say(f"  {topic}: {len(sizes)} partitions, {sum(sizes.values()) / 1e6:.1f} MB before replication")
    _show(cluster)
    end = f"python -m kafka_rebalance.local_cluster down --folder {shlex.quote(str(folder))}"
    _say(f"It goes on running. End it with: {end}")


def _status(folder: Path, _options: argparse.Namespace) -> None:
    _show(LocalCluster.attach(folder, _say))


def _down(folder: Path, _options: argparse.Namespace) -> None:
    cluster = LocalCluster.attach(folder, _say)
    cluster.close()
    shutil.rmtree(folder)
    _say(f"Kafka {cluster.version} has ended, and {folder} was removed.")


def _kill(folder: Path, options: argparse.Namespace) -> None:
    LocalCluster.attach(folder, _say).kill_broker(options.broker)
    _say(f"Broker {options.broker} was killed. The cluster notices when its session ends, in about 4 s.")


def _start(folder: Path, options: argparse.Namespace) -> None:
    LocalCluster.attach(folder, _say).start_broker(options.broker)
    _say(f"Broker {options.broker} runs.")


def _show(cluster: LocalCluster) -> None:
    _say(f"Kafka {cluster.version} in {cluster.folder}")
    if not cluster.kraft:
        _say(f"ZooKeeper          {cluster.zookeeper}{'' if cluster.zookeeper_is_running() else '  does not run'}")
    _say(f"bootstrap servers  {cluster.bootstrap_servers}")
    for broker, rack in sorted(cluster.brokers.items()):
        _say(f"broker {broker}  {rack or 'no rack'}  {'runs' if cluster.is_running(broker) else 'does not run'}")


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    # Like Ctrl-C: `up` then ends the servers that it has started so far.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
