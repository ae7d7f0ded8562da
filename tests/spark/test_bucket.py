"""Spark's jobs on a real S3 server, without a connector of Spark's own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from upath import UPath

from kafka_rebalance.documents.job_environment import STORAGE_OPTIONS
from kafka_rebalance.documents.json_files import NONCE, write_json
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import run
from kafka_rebalance.spark import job, ledger_job
from support.spark.run_inputs import NIGHTS, PARTITIONS, RESULTS, write_inputs
from support.storage.s3_server import BUCKET, S3Server, s3_server

pytestmark = pytest.mark.long

ENDS = 240.0  # seconds
WHERE = ["--snapshot", f"s3://{BUCKET}/run/snapshot", "--out", f"s3://{BUCKET}/run"]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("run"))


@pytest.fixture
def folder(s3: S3Server, request: pytest.FixtureRequest) -> Any:
    """A folder of the bucket that no other test has."""
    return UPath(f"s3://{BUCKET}/{request.node.name}", **s3.options())


def upload(source: Path, target: Any) -> None:
    for file in source.rglob("*"):
        if file.is_file():
            (target / file.relative_to(source).as_posix()).write_bytes(file.read_bytes())


def environment(options: dict[str, object]) -> dict[str, str]:
    """No credentials but the given ones: none of this machine's either."""
    return {STORAGE_OPTIONS: json.dumps(options), "AWS_EC2_METADATA_DISABLED": "true"}


def arguments(folder: Any, nonce: str = "c0ffee") -> list[str]:
    where = ["--snapshot", f"{folder}/snapshot", "--out", str(folder), "--settings", f"{folder}/settings.json"]
    return [*where, "--metrics", f"{folder}/metrics", "--expect-nonce", nonce]


def ended(process: subprocess.Popen[str]) -> str:
    try:
        return "".join(process.communicate(timeout=ENDS))
    finally:
        process.kill()


def test_a_plan_in_a_bucket_is_the_same_bytes_as_in_a_local_folder(
    s3: S3Server, folder: Any, inputs: Path, tmp_path: Path, start_submit: Callable[..., subprocess.Popen[str]]
) -> None:
    settings = Settings(seed=2)
    upload(inputs, folder)
    write_json(folder, "settings.json", settings.to_mapping())
    write_json(folder, NONCE, {"nonce": "c0ffee"})
    process = start_submit(job.__file__, *arguments(folder), environment=environment(s3.options()))
    said = ended(process)
    assert process.returncode == 0, said
    history = (folder / "history" / "part-0.parquet").read_bytes()
    assert pq.read_table(pa.BufferReader(history)).num_rows == PARTITIONS
    assert f"history: {NIGHTS} samples" in said
    run(inputs / "snapshot", tmp_path, settings, history=history)
    for name in RESULTS:
        assert (folder / name).read_bytes() == (tmp_path / name).read_bytes(), name
    assert s3.secret not in said


def test_past_days_in_a_bucket_become_one_file_each(
    s3: S3Server, folder: Any, inputs: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark("local[1]")
    (day, *_) = sorted((inputs / "metrics").iterdir())
    below = folder / "metrics" / "cluster=kafka_eu" / day.name
    for name in ("one.parquet", "two.parquet"):
        (below / name).write_bytes((day / "night.parquet").read_bytes())
    monkeypatch.setenv(STORAGE_OPTIONS, json.dumps(s3.options()))
    assert ledger_job.main(["--ledger", str(folder)]) == 0
    assert folder.fs.find(folder.path) == [f"{below.path}/compacted~1.parquet"]
    table = pq.read_table(pa.BufferReader((below / "compacted~1.parquet").read_bytes()))
    assert table.num_rows == 2 * PARTITIONS


def test_a_bucket_that_refuses_the_credentials_ends_the_job_with_one_line(
    s3: S3Server, folder: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(folder, NONCE, {"nonce": "c0ffee"})
    write_json(folder, "settings.json", {})
    monkeypatch.setenv(STORAGE_OPTIONS, json.dumps({**s3.options(), "secret": "wrong"}))
    assert job.main(arguments(folder)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{folder}/settings.json" in line
    assert "Forbidden" in line


def test_a_driver_without_the_library_for_the_bucket_says_in_one_line_what_to_install() -> None:
    code = f"import sys; sys.modules['s3fs'] = None; from kafka_rebalance.spark import job; sys.exit(job.main({WHERE}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ArtifactError: s3://{BUCKET}/run/snapshot cannot be opened (Install s3fs")
    assert "Nothing was planned. Install universal-pathlib and the library for s3 (s3fs for s3)" in line
