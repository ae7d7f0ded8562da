"""The tables of settings, policy and connections in docs/reference.md are those of the code."""

from __future__ import annotations

import dataclasses

import pytest

from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from scripts.reference import connection_sections, differing, model_sections


def test_the_page_has_every_setting_and_every_key_of_a_policy_as_the_code_has_them() -> None:
    assert differing(model_sections()) == []


def test_the_page_has_the_fields_of_both_types_of_connection() -> None:
    sections = connection_sections()
    assert len(sections) == 2
    assert differing(sections) == []


@pytest.mark.parametrize(("name", "kind"), [("settings", Settings), ("policy", Policy)])
def test_every_field_has_a_row_with_what_it_takes_and_means(name: str, kind: type) -> None:
    rows = [row.split(" | ") for row in model_sections()[name][2:]]
    assert [row[0] for row in rows] == [f"| `{field.name}`" for field in dataclasses.fields(kind)]
    assert {len(row) for row in rows} == {4}
    assert [row[0] for row in rows if not row[1] or not row[3].strip(" |")] == []
