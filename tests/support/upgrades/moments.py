"""What a version of the product had left at four moments of one run, and how to put it there again.

`tests/data/upgrades/<version>/<moment>/` holds what has changed since the moment before: the files below `runs_url`,
and in `airflow.json` what Airflow had stored. `znodes.json` is the whole ZooKeeper. See the README there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import zlib
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.bases.xcom import BaseXCom
from kazoo.security import OPEN_ACL_UNSAFE

from kafka_rebalance.documents import json_files
from support.golden.chain import RecordedCluster, RecordedRun
from support.golden.clock import stop_clocks
from support.golden.records import given
from support.zookeeper.fake_zookeeper import FakeZooKeeper, Znode

FOLDER = Path(__file__).parents[2] / "data" / "upgrades"
VERSIONS = tuple(sorted(path.parent.name for path in FOLDER.glob("*/waiting")))
START = "relieve_full_disks"  # the recorded run whose cluster, policy and params these are
CLUSTER = "simulated-cluster-0001"
AWAY, RACK = 5, "dc-1"  # the broker that is away between the batches
HERE = "<folder>"  # in place of this machine's folder
LEASE = "/kafka_rebalance/lease"
# The page is made again from the other files.
LEFT_OUT = (json_files.REPORT,)
TEXTS = {".json", ".csv"}


class Moment(StrEnum):
    WAITING = "waiting"  # for an approval
    DEFERRED = "deferred"  # the first batch is under way, and a trigger follows it
    PAUSED = "paused"  # the second batch waits for a broker, and a trigger with it
    ENDED = "ended"  # verified and recorded


def keep(version: str, moment: Moment, run: RecordedRun, cluster: RecordedCluster, airflow: dict[str, Any]) -> None:
    """Writes what is new since the moment before; `airflow` is what Airflow has stored by now."""
    into, root = FOLDER / version / moment, run.policy_file.parents[1]
    shutil.rmtree(into, ignore_errors=True)
    earlier = list(Moment)[: list(Moment).index(moment)]
    before = _kept_until(version, earlier[-1]) if earlier else {}
    there = {str(path.relative_to(root)): path for path in sorted((root / "runs").rglob("*")) if path.is_file()}
    there = {name: path for name, path in there.items() if path.name not in LEFT_OUT}
    for name, path in there.items():
        content = path.read_bytes()
        if path.suffix in TEXTS:
            content = content.replace(str(root).encode(), HERE.encode())
        if name not in before or before[name].read_bytes() != content:
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            (into / name).write_bytes(content)
    into.mkdir(parents=True, exist_ok=True)
    (into / "znodes.json").write_text(_znodes(cluster.fake, root))
    airflow |= {"gone": sorted(before.keys() - there.keys())}
    (into / "airflow.json").write_text(json.dumps(airflow, indent=1).replace(str(root), HERE) + "\n")


def restore(
    version: str, moment: Moment, root: Path, patch: pytest.MonkeyPatch
) -> tuple[RecordedRun, RecordedCluster, dict[str, Any]]:
    """The run and its cluster as they stood then, under a clock that stands at that time."""
    start, clock = given(START), stop_clocks(patch)
    cluster = RecordedCluster(patch, start)
    run = RecordedRun(root, cluster, patch, start, "one", lambda: None)
    for name, path in _kept_until(version, moment).items():
        content = path.read_bytes()
        if path.suffix in TEXTS:
            content = content.replace(HERE.encode(), str(root).encode())
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    folder = FOLDER / version / moment
    _restore_znodes(cluster.fake, json.loads((folder / "znodes.json").read_text()), root)
    airflow: dict[str, Any] = json.loads((folder / "airflow.json").read_text().replace(HERE, str(root)))
    clock.now = airflow["now"]
    run.xcom = {key: from_xcom(value) for key, value in airflow["xcoms"]["snapshot"].items()}
    if "approve" in airflow["xcoms"]:
        run.decision = from_xcom(airflow["xcoms"]["approve"]["decision"])
    return run, cluster, airflow


def as_xcom(value: Any) -> Any:
    """What Airflow's database holds of a value that a task has pushed."""
    return BaseXCom.serialize_value(value)


def from_xcom(stored: Any) -> Any:
    return BaseXCom.deserialize_value(SimpleNamespace(value=stored))


def _kept_until(version: str, moment: Moment) -> dict[str, Path]:
    """By its name below the root, each file as it was last written."""
    found: dict[str, Path] = {}
    for one in list(Moment)[: list(Moment).index(moment) + 1]:
        folder = FOLDER / version / one
        files = (path for path in (folder / "runs").rglob("*") if path.is_file())
        found |= {str(path.relative_to(folder)): path for path in files}
        for name in json.loads((folder / "airflow.json").read_text())["gone"]:
            found.pop(name)
    return found


def _znodes(fake: FakeZooKeeper, root: Path) -> str:
    """A znode a line. The lease's compressed record names the folder, so it is kept as text."""
    lines = [json.dumps({"zxid": fake.zxid})]
    for path, znode in sorted(fake.znodes.items()):
        text = znode.data.decode()
        if path == LEASE:
            record = json.loads(text)
            assert record["parts"] == 0
            inner = zlib.decompress(base64.b64decode(record["lease"])).decode()
            text = json.dumps(record | {"lease": inner.replace(str(root), HERE), "digest": ""})
        numbers = (znode.czxid, znode.mzxid, znode.version, znode.owner, znode.created)
        lines.append(json.dumps([path, text, *numbers]))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _restore_znodes(fake: FakeZooKeeper, kept: list[Any], root: Path) -> None:
    fake.zxid = kept[0]["zxid"]
    fake.znodes.clear()
    for path, text, czxid, mzxid, version, owner, created in kept[1:]:
        data = text.encode()
        if path == LEASE:
            record = json.loads(text)
            packed = zlib.compress(record["lease"].replace(HERE, str(root)).encode(), 9)
            record |= {"lease": base64.b64encode(packed).decode(), "digest": hashlib.sha256(packed).hexdigest()}
            data = json.dumps(record).encode()
        fake.znodes[path] = Znode(data, czxid, mzxid, list(OPEN_ACL_UNSAFE), version, owner, created)
