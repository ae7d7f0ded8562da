"""`kafka-rebalance` ends with 2 after every error, in the words of a command. A 1 means: worth a look."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from kafka_rebalance.command import first_look
from kafka_rebalance.command import main as command
from kafka_rebalance.command.main import told_here
from kafka_rebalance.documents.storage import storage_error
from kafka_rebalance.errors import NothingToDoError, PlanningError, ReadError

ADDRESSES = ("--bootstrap-servers", "b1:9092")
PLAN = json.dumps({"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [4, 2]}]})


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command.main, arguments)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the look at the cluster end in this error."""

    def let(failed: BaseException) -> None:
        def look_at(*_: object) -> None:
            raise failed

        monkeypatch.setattr(first_look, "look_at", look_at)

    return let


@pytest.mark.parametrize(
    "failed",
    [
        ReadError("Kafka b1:9092 cannot be read (no answer)."),
        PermissionError(13, "Permission denied", "/out"),
        KeyboardInterrupt(),
        click.Abort(),
        click.FileError("plan.json"),
        OverflowError("date value out of range"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        RecursionError("maximum recursion depth exceeded"),
        BrokenPipeError(32, "Broken pipe"),
        MemoryError(),
    ],
    ids=lambda failed: type(failed).__name__,
)
def test_every_error_ends_with_2_and_without_a_traceback(ends: Any, failed: BaseException) -> None:
    ends(failed)
    done = run("check", *ADDRESSES)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (PLAN.encode("utf-16"), "is UTF-16 text, but only UTF-8 is read"),
        (b'{"version":1,\n"partitions":"\xe4"}', "byte 0xe4 at line 2, column 15 belongs to no character"),
        (b"", "is empty"),
    ],
)
def test_a_plan_that_is_no_text_is_an_error(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(content)
    done = run("explain", str(file), *ADDRESSES)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"kafka://b1:9092", "line 1, column 1"),
        (b"[]", "holds no JSON object"),
        (b"", "there is no JSON"),
        (b'{"conn_type": "kafka_admin_api",}', "line 1, column 33 ('}'): the comma before it is one too many"),
        (b'{"conn_type": "kafka_admin_api", "host": "b1:9092", "extra": "{"}', "not a valid JSON"),
        (b'{"conn_type": "kafka_admin_api", "host": "b1:9092", "login": ["a"]}', "login must be a text"),
        (b'{"conn_type": "kafka_admin_api", "host": "PLAINTEXT://b1:9092"}', "leave out PLAINTEXT:// before a host"),
        (b'{"host": "b1:9092"}', "its type is None"),
        (PLAN.encode("utf-16"), "is UTF-16 text"),
    ],
)
def test_a_connection_that_cannot_be_used_is_an_error(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "connection.json"
    file.write_bytes(content)
    done = run("check", "--connection", str(file))
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert "Airflow" not in done.stderr.replace("Give an Airflow connection in JSON", "")
    assert "Admin, " not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("check", "--zookeeper", "zk1:2181"),
        ("check", "--job"),
        ("check", "--throttle", "0", *ADDRESSES),
        ("explain",),
        ("explain", "/nowhere/plan.json"),
        ("zzz",),
        ("local", "zzz"),
        ("local", "kill", "1", "--folder", "/nowhere"),
    ],
    ids=" ".join,
)
def test_wrong_options_end_with_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("check", "--help")], ids=" ".join)
def test_help_is_no_error(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 0


@pytest.mark.parametrize(
    ("text", "here"),
    [
        (
            "Broker 5 has no rack. To count these brokers as one rack, set rackless_brokers: one_rack in the policy.",
            "Broker 5 has no rack. To count these brokers as one rack, give --set rackless_brokers=one_rack, "
            "or set it in the file of --policy.",
        ),
        (
            "host is empty. Nothing was read or written. Correct it under Admin, Connections.",
            "host is empty. Nothing was read or written. Correct the command's options, or the file of --connection.",
        ),
        (
            "Check that this host can reach the brokers, and check security.protocol of the Airflow connection.",
            "Check that this host can reach the brokers, and check security.protocol of the connection.",
        ),
        (
            "It was deleted. Nothing was written. Start a new Dag run.",
            "It was deleted. Nothing was written. Run the command again.",
        ),
        ("Wait until it has ended, then clear this task.", "Wait until it has ended, then run the command again."),
        ("It is gone. Somebody has edited an XCom of this run.", "It is gone."),
    ],
)
def test_what_to_do_is_told_in_the_commands_own_words(text: str, here: str) -> None:
    assert told_here(text) == here


@pytest.mark.parametrize("number", [13, 28, 30, 5])
def test_a_folder_that_cannot_be_written_is_told_without_a_word_of_airflow(ends: Any, number: int) -> None:
    ends(storage_error("/out/x cannot be written", OSError(number, "reason")))
    done = run("check", *ADDRESSES)
    assert done.exit_code == 2
    assert not re.search("Airflow|Dag|task|runs_url", done.stderr), done.stderr
    assert "StorageError: /out/x cannot be written (reason)" in done.stderr


def test_no_advice_of_a_planning_error_is_lost(ends: Any) -> None:
    ends(PlanningError("Nothing was planned. Give more brokers."))
    assert "PlanningError: Nothing was planned. Give more brokers." in run("check", *ADDRESSES).stderr


def test_a_cluster_without_topics_ends_with_0_and_says_so(ends: Any) -> None:
    ends(NothingToDoError("Cluster abc has no topics, so there is nothing to do."))
    done = run("check", *ADDRESSES)
    assert done.exit_code == 0, done.output
    assert "Cluster abc has no topics, so there is nothing to do.\n" in done.stdout
