"""Ten recorded runs, planned and reported again: tables, digests and the page's figures are as they were recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.golden.planning import (
    DIGESTS,
    PLAN,
    REPORT,
    digest_entries,
    plan_entries,
    planned,
    report_entries,
    report_of,
    without_pictures,
)
from support.golden.records import OWN_TABLES, RUNS, check, recorded

Planned = tuple[str, Path, dict[str, Any]]


@pytest.fixture(scope="module", params=RUNS)
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """The run, the folder with its plan, and its settings."""
    run: str = request.param
    folder = tmp_path_factory.mktemp(run)
    return run, folder, planned(run, folder)


@pytest.mark.slow
def test_a_snapshot_gives_the_same_digests(plan: Planned) -> None:
    run, folder, settings = plan
    check(run, DIGESTS, digest_entries(folder, settings))


def test_a_snapshot_gives_the_same_tables_and_proposals(plan: Planned) -> None:
    run, folder, _ = plan
    check(run, PLAN, plan_entries(folder), whole=run == OWN_TABLES)


@pytest.mark.slow
def test_the_documents_of_a_run_give_the_same_report(plan: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the approval, midway and at the end."""
    run, folder, _ = plan
    if run == OWN_TABLES:
        pytest.skip("the planner alone was run")
    without_pictures(monkeypatch)
    stages = [stage for stage in recorded(run, REPORT) if stage != "request"]
    check(run, REPORT, report_entries(run, {stage: report_of(run, stage, folder) for stage in stages}), whole=False)
