"""One run of `kafka_rebalance` under Airflow's own scheduling decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.airflow.control_plane import ControlPlane, Template, bring_dags_in

if TYPE_CHECKING:
    from fastapi.testclient import TestClient


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Template]:
    bring_dags_in()
    with pytest.MonkeyPatch.context() as patch:
        yield Template(tmp_path_factory.mktemp("template"), patch)


@pytest.fixture
def plane(
    template: Template, client: TestClient, login: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> ControlPlane:
    return ControlPlane(template, client, login["admin"], monkeypatch)
