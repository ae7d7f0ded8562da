"""The run's folder: below one root, new for each attempt, and shared by all who read it."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from kafka_rebalance.errors import PolicyError, RunFolderError
from kafka_rebalance.run import run_folder
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment


def dag_run(run_id: str) -> SimpleNamespace:
    return SimpleNamespace(dag_id="kafka_rebalance", run_id=run_id)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(tmp_path / "runs"))
    return tmp_path / "runs"


def test_each_attempt_gets_a_folder_and_a_nonce_of_its_own(root: Path) -> None:
    first, nonce = run_folder.create_run_folder(
        airflow_deployment(), "prod", dag_run("manual__2026-11-21T00:00:00+00:00")
    )
    second, other = run_folder.create_run_folder(
        airflow_deployment(), "prod", dag_run("manual__2026-11-21T00:00:00+00:00")
    )
    assert (first.name, second.name) == ("1", "2")
    assert first.parent == second.parent
    assert nonce != other
    run_folder.check_shared(airflow_deployment(), first, nonce)


def test_run_ids_that_look_alike_as_file_names_do_not_share_a_folder(root: Path) -> None:
    colon, _ = run_folder.create_run_folder(airflow_deployment(), "prod", dag_run("a:b"))
    plus, _ = run_folder.create_run_folder(airflow_deployment(), "prod", dag_run("a+b"))
    assert colon.parent != plus.parent


def test_a_folder_that_is_not_this_runs_is_told_from_one_that_is_gone_and_one_that_never_was(root: Path) -> None:
    created, nonce = run_folder.create_run_folder(airflow_deployment(), "prod", dag_run("run"))
    folder = Path(str(created))
    another, _ = run_folder.create_run_folder(airflow_deployment(), "prod", dag_run("another"))
    for happens, said in (
        (lambda: shutil.copy(Path(str(another), "nonce.json"), folder / "nonce.json"), "is of another attempt or run"),
        (
            (folder / "nonce.json").unlink,
            "is incomplete: nonce.json of the run's first task is gone",
        ),
        (lambda: shutil.rmtree(folder), rf"The run's folder {folder} is gone, .* Somebody has removed the folder"),
        (lambda: shutil.rmtree(root), f"run folder not shared: this process sees no run below {root}"),
    ):
        happens()
        with pytest.raises(RunFolderError, match=said) as told:
            run_folder.check_shared(airflow_deployment(), folder, nonce)
        assert "kafka_throttle_janitor then puts back its throttle and lock" in str(told.value)


@pytest.mark.parametrize("url", ["/etc", "{root}", "{root}/../secrets", "{root}/a/../../secrets", "{root}2/run", ""])
def test_a_folder_outside_the_root_is_refused(root: Path, url: str) -> None:
    with pytest.raises(RunFolderError, match="not below runs_url"):
        run_folder.open_run_folder(airflow_deployment(), url.format(root=root))


def test_a_link_out_of_the_root_is_refused(root: Path, tmp_path: Path) -> None:
    root.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunFolderError, match="not below runs_url"):
        run_folder.open_run_folder(airflow_deployment(), str(root / "link"))


def test_a_run_folder_that_cannot_be_written_says_so_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(tmp_path / "file" / "runs"))
    with pytest.raises(RunFolderError, match="cannot be listed"):
        run_folder.create_run_folder(airflow_deployment(), "prod", dag_run("run"))


def test_the_root_may_be_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec's own in-memory storage stands for a bucket."""
    attach("memory", fs=MemoryFileSystem())
    monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", "memory://runs")
    folder, nonce = run_folder.create_run_folder(airflow_deployment(), "prod", dag_run("run"))
    again = run_folder.open_run_folder(airflow_deployment(), str(folder))
    run_folder.check_shared(airflow_deployment(), again, nonce)
    with pytest.raises(RunFolderError, match="not below runs_url"):
        run_folder.open_run_folder(airflow_deployment(), "memory://other/run")


class TestPolicy:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__POLICIES_FOLDER", str(tmp_path))
        return tmp_path

    def test_no_file_means_no_policy(self) -> None:
        assert airflow_deployment().read_policy("prod") is None

    def test_the_file_is_named_by_the_connection(self, folder: Path) -> None:
        (folder / "prod.yaml").write_text("approvers: [uma]\n")
        policy = airflow_deployment().read_policy("prod")
        assert policy is not None
        assert [person.id for person in policy.approvers] == ["uma"]

    @pytest.mark.parametrize("text", ["approvers: [", "approvers: uma", "- uma", "", "approvers: [uma]\nmax_byte: 3"])
    def test_a_wrong_file_is_an_error_and_never_no_policy(self, folder: Path, text: str) -> None:
        (folder / "prod.yaml").write_text(text)
        with pytest.raises(PolicyError, match=r"prod\.yaml"):
            airflow_deployment().read_policy("prod")

    def test_an_unreadable_file_is_an_error(self, folder: Path) -> None:
        (folder / "prod.yaml").mkdir()
        with pytest.raises(PolicyError, match="cannot be read"):
            airflow_deployment().read_policy("prod")

    @pytest.mark.parametrize("name", ["../prod", "a/b", "", ".hidden"])
    def test_a_connection_id_cannot_name_a_file_elsewhere(self, name: str) -> None:
        with pytest.raises(PolicyError, match="cannot name a policy file"):
            airflow_deployment().read_policy(name)
