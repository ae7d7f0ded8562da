"""The requests for groups that kafka-python does not have, held against Kafka's own descriptions of them."""

from __future__ import annotations

import json
import re
import zipfile
from importlib.resources import files
from typing import Any

import pytest

from kafka_rebalance.local_cluster.jars.class_path import quiet
from kafka_rebalance.local_cluster.jvms.class_archive import find_runtime

NEWEST = "4.4.0"
NAMES = ("ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe", "DescribeShareGroupOffsets")
WORDS = ("about", "entityType", "listeners")  # which say nothing of the bytes


@pytest.fixture(scope="module")
def jar() -> zipfile.ZipFile:
    path = find_runtime(NEWEST, quiet).class_path
    (clients,) = (one for one in path if f"kafka-clients-{NEWEST}.jar" in str(one))
    return zipfile.ZipFile(clients)


@pytest.mark.parametrize("name", [f"{name}{kind}" for name in NAMES for kind in ("Request", "Response")])
def test_our_descriptions_are_kafkas_for_the_version_that_we_send(jar: zipfile.ZipFile, name: str) -> None:
    ours = json.loads(files("kafka_rebalance.admin.messages").joinpath(f"{name}.json").read_text())
    text = jar.read(f"common/message/{name}.json").decode()
    kafkas = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    sent = int(ours["validVersions"])
    assert sent >= int(kafkas["validVersions"].split("-")[0])
    assert of_version(ours, sent) == of_version(kafkas, sent)


def of_version(told: Any, version: int) -> Any:
    """What a description says of one version, without its words."""
    if isinstance(told, list):
        return [of_version(one, version) for one in told if not isinstance(one, dict) or has(one, version)]
    if isinstance(told, dict):
        return {key: of_version(value, version) for key, value in told.items() if key not in (*WORDS, "validVersions")}
    return told


def has(field: dict[str, Any], version: int) -> bool:
    first, _, last = field.get("versions", "0+").replace("+", "-99").partition("-")
    return int(first) <= version <= int(last or first)
