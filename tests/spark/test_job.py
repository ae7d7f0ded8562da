"""The job through the real spark-submit: the same files as the command, byte for byte, and errors as text."""

from __future__ import annotations

import json
import random
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kafka_rebalance.documents.json_files import write_json
from kafka_rebalance.documents.proposals import PROPOSALS_FILE
from kafka_rebalance.kafka.reassignment_json import format_reassignment
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import run
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.spark import job, package_zip
from kafka_rebalance.spark.job_driver import NONCE
from support.plans.small_snapshots import broker_rows, partition_rows

JOB = Path(job.__file__)
RESULTS = [f"{table}/part-0.parquet" for table in ("moves", "scores", "candidates", "loads", "disk")] + [
    "proposals.json"
]

Submit = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def submit(start_submit: Callable[..., subprocess.Popen[str]]) -> Submit:
    """Runs the job to its end."""

    def run_job(*arguments: str) -> subprocess.CompletedProcess[str]:
        process = start_submit(str(JOB), *arguments)
        stdout, stderr = process.communicate(timeout=200)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    return run_job


def written(folder: Path, proposed: Mapping[TopicPartition, list[int]], growth: float = 1.0) -> Path:
    """120 partitions of uneven size on five of six brokers in three racks, and the lists proposed for `balanced`."""
    folder.mkdir()
    draw = random.Random(5)
    racks = {broker: "abc"[broker % 3] for broker in range(1, 7)}
    lists = [draw.sample(range(1, 6), 2) for _ in range(120)]
    sizes = [int(draw.randrange(10**9) * draw.uniform(1, growth)) for _ in lists]
    rates = [draw.random() * 1e6 for _ in lists]
    rows = partition_rows(lists, size_bytes=sizes, bytes_in_per_second=rates)
    for row in rows:
        row["proposed_balanced"] = proposed.get(TopicPartition(row["topic"], row["partition"]))
    write_snapshot(folder, broker_rows(racks, racks), rows)
    return folder


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("run") / "snapshot", {})


def test_the_job_leaves_the_same_bytes_as_the_command(snapshot: Path, tmp_path: Path, submit: Submit) -> None:
    run(snapshot, tmp_path / "here", Settings(seed=2))
    (tmp_path / "there").mkdir()
    write_json(tmp_path, "settings.json", {"seed": 2})
    write_json(tmp_path / "there", NONCE, {"nonce": "c0ffee"})
    # A URL of a local folder is that folder.
    out = (tmp_path / "there").as_uri()
    where = ("--snapshot", snapshot.as_uri(), "--out", out, "--settings", str(tmp_path / "settings.json"))
    done = submit(*where, "--expect-nonce", "c0ffee")
    assert done.returncode == 0, done.stderr
    for name in RESULTS:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name
    assert (tmp_path / "there" / "timings.json").is_file()
    assert not list((tmp_path / "there").rglob("*.crc"))
    said = [
        line
        for line in done.stdout.splitlines()
        if line.startswith(("job balance", "leaders_only", "light", "balanced", "optimal"))
    ]
    assert len(said) == 5


@pytest.mark.long
def test_near_the_last_proposal_too_the_job_leaves_the_same_bytes_as_the_command(
    snapshot: Path, tmp_path: Path, submit: Submit
) -> None:
    run(snapshot, tmp_path / "first", Settings())
    first = {move.topic_partition: list(move.after) for move in read_candidate(tmp_path / "first", "balanced").moves}
    later = written(tmp_path / "later", first, growth=1.01)
    run(later, tmp_path / "here", Settings(seed=2))
    write_json(tmp_path, "settings.json", {"seed": 2})
    done = submit(
        "--snapshot", str(later), "--out", str(tmp_path / "there"), "--settings", str(tmp_path / "settings.json")
    )
    assert done.returncode == 0, done.stderr
    for name in RESULTS:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name
    (balanced,) = [one for one in PROPOSALS_FILE.read(tmp_path / "there").candidates if one.name == "balanced"]
    assert balanced.since_last is not None
    assert balanced.since_last.same > 0.8 * len(first)
    assert " INFO DAGScheduler" not in done.stderr + done.stdout


def test_a_given_plan_and_kafkas_own_are_the_same_bytes_from_the_job_and_the_command(
    snapshot: Path, tmp_path: Path, submit: Submit
) -> None:
    plan = format_reassignment({TopicPartition("orders", number): (6, 1 + number % 5) for number in range(40)})
    settings = Settings(seed=3, candidates=("light", "as_kafka"), plan=plan, throttle_bytes_per_second=10**7)
    write_json(tmp_path, "settings.json", settings.to_mapping())
    run(snapshot, tmp_path / "here", settings)
    there = tmp_path / "there"
    done = submit("--snapshot", str(snapshot), "--out", str(there), "--settings", str(tmp_path / "settings.json"))
    assert done.returncode == 0, done.stdout
    for name in RESULTS:
        assert (there / name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name
    found = [entry["name"] for entry in json.loads((there / "proposals.json").read_text())["candidates"]]
    assert found == ["light", "as_kafka", "given"]
    assert len(read_candidate(there, "given").moves) == 40
    assert len(read_candidate(there, "as_kafka").moves) > 100


def test_the_job_ends_with_the_text_of_what_it_cannot_use(snapshot: Path, tmp_path: Path, submit: Submit) -> None:
    (tmp_path / "settings.json").write_text('{"job": "drain", "drain": [9]}')
    done = submit("--snapshot", str(snapshot), "--out", str(tmp_path), "--settings", str(tmp_path / "settings.json"))
    assert done.returncode == 2
    # spark-submit sends both of Python's streams to its stdout.
    assert "PlanningError: drain: broker 9 does not exist. Brokers are 1, 2, 3, 4, 5, 6." in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("found", [None, "other"])
def test_a_folder_that_the_driver_does_not_share_is_refused(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], found: str | None
) -> None:
    if found is not None:
        write_json(tmp_path, NONCE, {"nonce": found})
    assert job.main(["--snapshot", str(snapshot), "--out", str(tmp_path), "--expect-nonce", "c0ffee"]) == 2
    assert "RunFolderError: run folder not shared" in capsys.readouterr().err
    assert not (tmp_path / "proposals.json").exists()


def test_the_zip_holds_what_the_job_needs_and_always_the_same_bytes(tmp_path: Path) -> None:
    one, two = (
        package_zip.build_package_zip(tmp_path / "one.zip"),
        package_zip.build_package_zip(tmp_path / "deep" / "two.zip"),
    )
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(one) as archive:
        names = archive.namelist()
    assert {"kafka_rebalance/errors.py", "kafka_rebalance/planning/candidates.py", "kafka_rebalance/spark/job.py"} <= {
        *names
    }
    rooms = {name.split("/")[1] for name in names if name.count("/") > 1}
    assert rooms == {"model", "kafka", "documents", "planning", "spark"}
    assert not any("local_cluster" in name for name in names)
