"""`kafka-rebalance check|explain|local`. Exit codes: 0 nothing to do, 1 something is worth a look, 2 an error."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import kafka_rebalance
from kafka_rebalance.errors import ConnectionSettingsError, NothingToDoError, RebalanceError
from kafka_rebalance.kafka.given_json import decode_given, one_json_value
from kafka_rebalance.model.connection import WITH_ADMIN_API, WITH_ZOOKEEPER, ClusterConnection, cluster_connection
from kafka_rebalance.model.settings import GIVEN

if TYPE_CHECKING:
    from kafka_rebalance.command.first_look import FirstLook


ATTENTION, FAILED = 1, 2
_THROTTLE = 50_000_000  # without a policy: many clusters have networks for more, and none for much less
_NAME = "cluster"


@dataclass
class _Fields:
    """What an Airflow connection has, from the options of this command."""

    conn_type: str
    host: str | None
    extra_dejson: Any
    conn_id: str = _NAME
    port: int | None = None
    schema: str | None = None
    login: str | None = None
    password: str | None = None


def _cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--bootstrap-servers", metavar="HOST:PORT,…", help="Some brokers. Alone: without ZooKeeper."),
        click.option("--zookeeper", metavar="HOST:PORT,…/CHROOT", help="ZooKeeper, if the cluster has one."),
        click.option(
            "--connection",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A file with an Airflow connection in JSON, for clusters with TLS or passwords.",
        ),
        click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            default=Path("kafka-rebalance"),
            show_default=True,
            help="The folder for report and tables.",
        ),
        click.option(
            "--throttle",
            type=click.IntRange(min=1),
            show_default="the policy's highest, or 50000000 without a policy",
            help="Bytes per second of one broker, from which the times are computed.",
        ),
        click.option(
            "--policy",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="The policy file of the cluster: then the plan is that of a run of kafka_rebalance.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print the proposals as JSON on stdout."),
    )
    for option in reversed(options):
        command = option(command)
    return command


class _ReaderGone(Exception):
    """Who reads stdout has had enough. Click would end with 1 after a BrokenPipeError."""


class _Group(click.Group):
    """Ends with FAILED after every error. Click itself ends with 1 after some, which here means a look."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as gone:
            raise _ReaderGone from gone

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        begin: Callable[..., Any] = super().main
        if not standalone_mode:
            return begin(*args, standalone_mode=False, **options)
        try:
            sys.exit(begin(*args, standalone_mode=False, **options) or 0)
        except click.ClickException as wrong:
            wrong.show()
        except (click.Abort, KeyboardInterrupt):
            click.echo("Stopped. Nothing was written to the cluster.", err=True)
        except NothingToDoError as nothing:
            click.echo(told_here(str(nothing)))
            sys.exit(0)
        except RebalanceError as wrong:
            click.echo(f"{type(wrong).__name__}: {told_here(str(wrong))}", err=True)
        except _ReaderGone:
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  Python flushes both at its end
        except Exception as failed:
            logging.getLogger(__name__).debug("", exc_info=failed)
            click.echo(f"{type(failed).__name__}: {failed}. Nothing was written to the cluster.", err=True)
        sys.exit(FAILED)


@click.group(cls=_Group, help="A first look at the balance of a Kafka cluster. It writes to no cluster.")
@click.version_option(kafka_rebalance.__version__)
def main() -> None:
    logging.basicConfig(level=logging.ERROR)


@main.command(help="Read a cluster, score it, plan, and write report.html with its tables.")
@_cluster_options
@click.option("--job", default="balance", show_default=True, help="A job of docs/jobs.md.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=JSON", help="A setting of docs/reference.md, as in drain=[3]."
)
def check(
    job: str,
    settings: tuple[str, ...],
    throttle: int | None,
    policy: Path | None,
    as_json: bool,
    out: Path,
    **cluster: Any,
) -> None:
    params = {"job": job, **_rate(throttle, policy), **dict(_setting(text) for text in settings)}
    look = _look(_connection(**cluster), out, params, policy)
    from kafka_rebalance.command.first_look import check_lines, lines_of_terms

    _tell(look, (*check_lines(look.report), "", *lines_of_terms(look.proposals.settings)), as_json=as_json)
    sys.exit(ATTENTION if look.proposals.recommended else 0)


@main.command(help="Score the plan in FILE (JSON of kafka-reassign-partitions) on a cluster.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_cluster_options
def explain(file: Path, throttle: int | None, policy: Path | None, as_json: bool, out: Path, **cluster: Any) -> None:
    plan = decode_given(file.read_bytes(), str(file))
    if not plan.strip():
        raise click.UsageError(f"{file} is empty.")
    look = _look(_connection(**cluster), out, {"plan": plan, **_rate(throttle, policy)}, policy)
    from kafka_rebalance.command.first_look import explain_lines, lines_of_terms

    lines = (*explain_lines(look.report, GIVEN), "", *lines_of_terms(look.proposals.settings))
    _tell(look, lines, as_json=as_json)
    given = next(candidate for candidate in look.proposals.candidates if candidate.name == GIVEN)
    sys.exit(ATTENTION if given.status != "ok" or given.less_even is not None else 0)


@main.command(
    help="Start, show and end a Kafka cluster on this machine.",
    context_settings={"ignore_unknown_options": True},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def local(arguments: tuple[str, ...]) -> None:
    from kafka_rebalance.local_cluster.__main__ import main as local_main

    sys.exit(FAILED if local_main(arguments) else 0)  # 1 is its own code for errors, 130 that of Ctrl-C


def _connection(bootstrap_servers: str | None, zookeeper: str | None, connection: Path | None) -> ClusterConnection:
    if connection is not None:
        if bootstrap_servers or zookeeper:
            raise click.UsageError("Give --connection, or addresses, not both.")
        return cluster_connection(_of_file(connection))
    if not bootstrap_servers:
        raise click.UsageError("Give --bootstrap-servers, with --zookeeper if the cluster has one, or --connection.")
    if zookeeper:
        return cluster_connection(_Fields(WITH_ZOOKEEPER, zookeeper, {"bootstrap_servers": bootstrap_servers}))
    return cluster_connection(_Fields(WITH_ADMIN_API, bootstrap_servers, {}))


def _of_file(file: Path) -> _Fields:
    """Raises RebalanceError for a file that is no connection in JSON; `cluster_connection` looks at the fields."""
    text = one_json_value(decode_given(file.read_bytes(), str(file)))
    given = json.loads(text)
    if not isinstance(given, dict):
        raise ConnectionSettingsError(
            f"{file} holds no JSON object. Nothing was read. Give an Airflow connection in JSON."
        )
    known = {name: given[name] for name in _Fields.__dataclass_fields__ if name in given and name != "conn_id"}
    extra = given.get("extra") or {}
    if isinstance(extra, str):
        extra = json.loads(one_json_value(extra))
    return _Fields(**{"conn_type": None, "host": None, **known, "extra_dejson": extra})


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    try:
        return name, json.loads(value if equals else "true")
    except ValueError:
        return name, value


def _rate(throttle: int | None, policy: Path | None) -> dict[str, int]:
    """The throttle that is asked for. With a policy that may be none, and the run takes the policy's highest."""
    rate = throttle or (None if policy is not None else _THROTTLE)
    return {} if rate is None else {"throttle_bytes_per_second": rate}


def _look(connection: ClusterConnection, out: Path, params: Mapping[str, Any], policy: Path | None = None) -> FirstLook:
    from kafka_rebalance.command.first_look import look_at  # loads numpy, Arrow and the clients

    steps = 8  # of most clusters; a bar needs a length
    with click.progressbar(length=steps, label="starting", file=sys.stderr, show_eta=False) as bar:

        def progress(line: str) -> None:
            bar.label = line.partition(":")[0][:32]
            bar.update(1)

        given = None if policy is None else policy.read_bytes()
        return look_at(connection, out.absolute(), params, progress, given)


def _tell(look: FirstLook, lines: Sequence[str], *, as_json: bool) -> None:
    from kafka_rebalance.documents import json_files

    if as_json:
        click.echo(json.dumps(json_files.read_json(look.folder, json_files.PROPOSALS), indent=2))
        return
    for line in (*lines, "", f"Report: {look.folder / json_files.REPORT}"):
        click.echo(line)


# The errors of steps in the words of this command, which has no Airflow and no Dag run.


_AGAIN = "Run the command again"
_OPTIONS = "the command's options, or the file of --connection"
# What steps advise, and what that is here.
_HERE = (
    (
        r"set rackless_brokers: (\w+) in the policy",
        r"give --set rackless_brokers=\1, or set it in the file of --policy",
    ),
    (r"Correct (?:it|them|one of them) under Admin, Connections", f"Correct {_OPTIONS}"),
    (r"\bthe Airflow connection", "the connection"),
    (r"Let Airflow's processes read and write what is below \[kafka_rebalance\] runs_url", "Let this user write there"),
    (r"the storage below \[kafka_rebalance\] runs_url", "that storage"),
    (r"Start a new Dag run|Clear (?:the|this) task(?: that wrote it)?", _AGAIN),
    (r"start a new Dag run|clear (?:the|this) task(?: that wrote it)?", _AGAIN.lower()),
    (r"Let the task that wrote it write it again", _AGAIN),
)
_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z[])")
_ELSEWHERE = re.compile(r"\b(Airflow|Airflow's|Dag|XCom|triggerer)\b|Admin, |\brun's page\b|\bruns_url\b")


def told_here(text: str) -> str:
    """The text with what to do here, without sentences about what is not here."""
    for pattern, words in _HERE:
        text = re.sub(pattern, words, text)
    return " ".join(sentence for sentence in _SENTENCE.split(text) if not _ELSEWHERE.search(sentence))
