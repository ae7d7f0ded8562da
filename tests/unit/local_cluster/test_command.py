"""The command refuses what cannot be, and says what it left alone."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from kafka_rebalance.local_cluster import __main__ as local_main
from kafka_rebalance.local_cluster.__main__ import main
from kafka_rebalance.local_cluster.cluster import STATE_FILE
from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.jvms import class_archive
from kafka_rebalance.local_cluster.jvms.class_archive import find_runtime
from kafka_rebalance.local_cluster.jvms.runtime import Runtime


@pytest.mark.parametrize("command", [["status"], ["down"], ["kill", "1"], ["start", "1"], ["up", "--add", "1"]])
def test_where_no_cluster_is_there_is_nothing_to_do(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--folder", str(tmp_path)]) == 1
    assert "There is no cluster in" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "reason"), [("{", "cannot be read"), ('{"format_version": 99}', "does not have format version 1")]
)
def test_a_state_file_that_cannot_be_used_is_left_alone(
    content: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / STATE_FILE).write_text(content)
    assert main(["down", "--folder", str(tmp_path)]) == 1
    assert reason in capsys.readouterr().err
    assert (tmp_path / STATE_FILE).read_text() == content


def test_the_command_that_ends_a_cluster_can_be_pasted_whatever_its_folder_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Started:
        version, folder, kraft, brokers, bootstrap_servers = "3.9.2", tmp_path, True, dict[int, str](), "b1:9092"

        def __init__(self, *_: object, **__: object) -> None: ...

        def start(self) -> Started:
            return self

    monkeypatch.setattr(local_main, "LocalCluster", Started)
    folder = tmp_path / "it's a $(folder)"
    assert main(["up", "--folder", str(folder)]) == 0
    end = capsys.readouterr().out.splitlines()[-1].partition("End it with: ")[2]
    assert shlex.split(end)[-2:] == ["--folder", str(folder)]


def test_processes_that_are_gone_are_not_running_and_down_removes_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    state = {
        "format_version": 1,
        "version": "3.9.2",
        "racks": 3,
        "zookeeper_port": 1,
        "brokers": [{"id": 1, "rack": "rack-0", "port": 2}],
        "broker_config": {},
        # As after a restart of the machine: pid 1 is somebody else now.
        "processes": {"zookeeper": [1, "another start"], "broker-1": [1, "another start"]},
    }
    (folder / STATE_FILE).write_text(json.dumps(state))
    assert main(["status", "--folder", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "broker 1  rack-0  does not run" in said
    assert "127.0.0.1:1  does not run" in said
    assert main(["down", "--folder", str(folder)]) == 0
    assert not folder.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["up", "--brokers", "0"],
        ["up", "--racks", "-1"],
        ["up", "--version", "4.0.0"],
        ["up", "--scenario", "chaos"],
        ["up", "--add", "1", "--scenario", "broker_to_drain"],
        ["kill", "one"],
        [],
    ],
)
def test_impossible_arguments_end_with_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_without_a_class_archive_a_cluster_still_starts_and_says_why_it_is_slower(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho version >&2\n")
    java.chmod(0o755)

    def refuse(_runtime: Runtime, _folder: Path, _archive: Path, *, with_zookeeper: bool) -> None:
        raise LocalClusterError("Java wrote no archive.")

    monkeypatch.setenv("KAFKA_REBALANCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(class_archive, "find_java", lambda: java)
    monkeypatch.setattr(class_archive, "kafka_jars", lambda _version, _progress: (tmp_path / "kafka.jar",))
    monkeypatch.setattr(class_archive, "_train", refuse)
    said: list[str] = []
    runtime = find_runtime("3.9.2", said.append)
    assert runtime.options == ()
    assert "Starting will take longer" in said[-1]
