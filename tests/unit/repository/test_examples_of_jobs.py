"""The examples of docs/jobs.md are params that a run takes."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.settings import Settings

PAGE = (Path(__file__).parents[3] / "docs/jobs.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```json\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_one_that_a_run_takes(example: str) -> None:
    given = json.loads(example)
    assert Settings.from_mapping(given).job == given["job"]


def test_the_tasks_that_people_come_with_have_an_example() -> None:
    titles = re.findall(r"^### (.+)\n(?:(?!^#).*\n)*?```json", PAGE, flags=re.MULTILINE)
    assert len(titles) == len(EXAMPLES) >= 7
    wanted = {"Add a broker", "Drain a broker", "Replace a broker", "Demote a broker", "Two zones"}
    assert wanted | {"Raise the replication factor"} <= set(titles)


def test_every_setting_that_people_give_is_shown() -> None:
    given = {field.name for field in dataclasses.fields(Settings)} - {"policy_digest"}
    assert {name for name in given if not re.search(rf"\b{name}\b", PAGE)} == set()


def test_an_example_that_no_run_takes_is_refused() -> None:
    with pytest.raises(SettingsError):
        Settings.from_mapping({"job": "drain", "drains": [4]})
