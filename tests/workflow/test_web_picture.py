"""The picture of the approval request: for those who may see the run, and nothing but a picture."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from kafka_rebalance.model.artifacts import PROPOSALS
from web_run import Run

pytestmark = pytest.mark.usefixtures("tables")


def test_the_picture_is_an_svg_without_a_script_under_the_strict_policy(get: Any) -> None:
    answer = get(f"{Run().ready().url}/brokers.svg")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")
    assert not [one for one in ElementTree.fromstring(answer.content).iter() if one.tag.endswith("script")]


@pytest.mark.parametrize(("user", "status"), [(None, 401), ("nora", 403)])
def test_the_picture_needs_a_login_and_permission_for_the_dag(get: Any, user: str | None, status: int) -> None:
    assert get(f"{Run().ready().url}/brokers.svg", user=user).status_code == status


def test_without_a_plan_there_is_no_picture(get: Any) -> None:
    run = Run().ready()
    (run.folder / PROPOSALS).unlink()
    assert get(f"{run.url}/brokers.svg").status_code == 404
    assert get("/kafka-rebalance/run/kafka_rebalance/nothing/brokers.svg").status_code == 404
