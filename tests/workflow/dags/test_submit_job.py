"""What spark-submit gets from our operator, in a stand-in for it: its code, command line, environment and error."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from upath import UPath

from kafka_rebalance.dags import kafka_ledger_dag, kafka_rebalance_dag, kafka_topics_dag
from kafka_rebalance.documents.job_environment import ERROR_FILE, STORAGE_OPTIONS
from kafka_rebalance.documents.storage import write_whole
from kafka_rebalance.errors import StorageError
from kafka_rebalance.spark import package_zip
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.operators.submit import JobSubmitOperator
from support.storage.s3_server import S3Server

# Notes what it was started with, and the digest of its zip. Then it ends as the test wants.
SPARK_SUBMIT = f"""#!{sys.executable}
import hashlib, json, os, pathlib, sys
here = pathlib.Path(__file__).parent
files = [word for word in sys.argv if word.endswith(".zip")]
digests = [hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest() for file in files]
(here / "noted.json").write_text(json.dumps([sys.argv[1:], dict(os.environ), files, digests]))
ending = json.loads((here / "ending.json").read_text())
if ending["error"]:
    pathlib.Path(os.environ["{ERROR_FILE}"]).write_text(json.dumps(ending["error"]))
print(f"exit code: {{ending['code']}}", "the last line of the driver's log", sep="\\n")
sys.exit(ending["code"])
"""
LOCAL = {"conn_type": "spark", "host": "local[2]"}
API = "k8s://https://kubernetes.example.org:6443"
MASTERS = {  # of the connection: what spark-submit gets
    "standalone": ({"host": "spark://one", "port": 7077}, ["--master", "spark://one:7077"]),
    "YARN": (
        {"host": "yarn", "extra": {"queue": "planning", "deploy-mode": "client"}},
        ["--master", "yarn", "--queue", "planning", "--deploy-mode", "client"],
    ),
    "YARN, cluster mode": (
        {"host": "yarn", "extra": {"deploy-mode": "cluster", "principal": "kafka@EXAMPLE.ORG"}},
        ["--master", "yarn", "--principal", "kafka@EXAMPLE.ORG", "--deploy-mode", "cluster"],
    ),
    "Kubernetes": (
        {"host": API, "extra": {"namespace": "planning", "deploy-mode": "client"}},
        ["--master", API, "--conf", "spark.kubernetes.namespace=planning", "--deploy-mode", "client"],
    ),
    "Kubernetes, cluster mode": (
        {"host": API, "extra": {"namespace": "planning", "deploy-mode": "cluster"}},
        ["--master", API, "--conf", "spark.kubernetes.namespace=planning", "--deploy-mode", "cluster"],
    ),
}

Noted = tuple[list[str], dict[str, str], list[str], list[str]]


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Noted]:
    """Runs the task `plan` with the stand-in. Returns what that has noted."""
    program = tmp_path / "spark-submit"
    program.write_text(SPARK_SUBMIT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def run(
        connection: Mapping[str, object] = LOCAL, error: Mapping[str, str] | None = None, code: int = 0, **given: Any
    ) -> Noted:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        (tmp_path / "ending.json").write_text(json.dumps({"error": error, "code": code}))
        arguments = {"application_args": ["--out", "folder"], **given}
        JobSubmitOperator(task_id="plan", application="job.py", **arguments).execute({})
        return tuple(json.loads((tmp_path / "noted.json").read_text()))  # type: ignore[return-value]

    return run


def test_a_bucket_is_opened_by_the_driver_with_the_connections_credentials_which_no_command_line_shows(
    submit: Callable[..., Noted], s3: S3Server, bucket: str
) -> None:
    root: Any = airflow_deployment().runs_root
    write_whole(root / "run" / "nonce.json", b"{}")
    words, environment, *_ = submit(
        application_args=["--out", str(root / "run"), "--expect-run", "kafka_rebalance/s3://run"]
    )
    options = json.loads(environment[STORAGE_OPTIONS])
    assert options.pop("token") is None
    assert options == {**s3.options(), "anon": False}
    assert not any(s3.secret in word or s3.key in word or "store@" in word for word in words)
    out = words[words.index("--out") + 1]
    assert words[-1] == "kafka_rebalance/s3://run"
    assert UPath(out, **options).joinpath("nonce.json").read_bytes() == b"{}"
    assert STORAGE_OPTIONS not in os.environ


def test_a_folder_that_all_share_needs_no_secret(submit: Callable[..., Noted]) -> None:
    _, environment, *_ = submit()
    assert STORAGE_OPTIONS not in environment


@pytest.mark.parametrize("code", [0, 1], ids=["a job that ends well", "a job that fails"])
def test_spark_gets_the_installed_package_from_a_folder_of_the_task_which_goes_with_it(
    submit: Callable[..., Noted], tmp_path: Path, code: int
) -> None:
    with suppress(AirflowException):
        submit(code=code)
    _, _, (package,), digests = json.loads((tmp_path / "noted.json").read_text())
    own = package_zip.build_package_zip(tmp_path / "own.zip").read_bytes()
    assert digests == [hashlib.sha256(own).hexdigest()]
    assert not Path(package).parent.exists()


def test_no_dag_takes_code_for_spark_from_an_xcom_or_from_storage() -> None:
    dags = kafka_rebalance_dag.DAG, kafka_topics_dag.DAG, kafka_ledger_dag.DAG
    submits = [task for dag in dags for task in dag.tasks if isinstance(task, SparkSubmitOperator)]
    assert [task.task_id for task in submits] == ["plan", "sample_keys", "compact"]
    for task in submits:
        assert isinstance(task, JobSubmitOperator)
        named = {name: getattr(task, name) for name in SparkSubmitOperator.template_fields}
        del named["application_args"]  # data, which is compared with the run's own
        assert not any("{{" in str(value) for value in named.values())
        assert task.py_files is None


def test_the_drivers_error_is_the_tasks_and_a_retry_is_for_storage_alone(
    submit: Callable[..., Noted],
) -> None:
    with pytest.raises(AirflowFailException) as final:
        submit(error={"kind": "SparkError", "text": "host: python3 has no numpy. Install it."}, code=2)
    assert str(final.value) == "SparkError: host: python3 has no numpy. Install it."
    with pytest.raises(StorageError, match="the bucket does not answer"):
        submit(error={"kind": "StorageError", "text": "the bucket does not answer"}, code=2)


def test_a_driver_that_left_no_error_fails_the_task_with_the_end_of_its_log(
    submit: Callable[..., Noted],
) -> None:
    with pytest.raises(AirflowException, match="the last line of the driver's log"):
        submit(code=1)


@pytest.mark.parametrize(("connection", "wanted"), MASTERS.values(), ids=MASTERS.keys())
def test_the_connection_says_where_spark_runs(
    connection: dict[str, object],
    wanted: list[str],
    submit: Callable[..., Noted],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The hook asks for Airflow's Kubernetes provider, and uses it only to end a driver in cluster mode.
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    words, _, files, _ = submit({"conn_type": "spark", **connection})
    ours = ["--py-files", *files, "--name", "arrow-spark", "job.py", "--out", "folder"]
    assert sorted(words) == sorted(wanted + ours)
    assert words[-3:] == ours[-3:]
