"""Ten recorded runs, carried out again from the snapshot to the ledger: every file is as it was recorded."""

from __future__ import annotations

import pytest

from support.golden.chain import Bundles, carried_out
from support.golden.others import left_by_others
from support.golden.planning import DIGESTS, PLAN, REPORT, RUN, SNAPSHOT
from support.golden.records import OWN_TABLES, RUNS, check


@pytest.fixture(scope="module", params=[run for run in RUNS if run != OWN_TABLES])
def chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Bundles]:
    run: str = request.param
    with pytest.MonkeyPatch.context() as monkeypatch:
        return run, carried_out(run, tmp_path_factory.mktemp(run), monkeypatch)


@pytest.mark.parametrize("bundle", [DIGESTS, SNAPSHOT, PLAN, RUN, REPORT])
def test_a_recorded_run_leaves_the_same_behind(chain: tuple[str, Bundles], bundle: str) -> None:
    run, made = chain
    check(run, bundle, made[bundle])


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    with pytest.MonkeyPatch.context() as monkeypatch:
        return left_by_others(tmp_path_factory.mktemp("others"), monkeypatch)


@pytest.mark.parametrize("bundle", ["nightly.txt", "janitor.txt", "cancel.txt", "topics.txt"])
def test_the_other_dags_leave_the_same_behind(others: Bundles, bundle: str) -> None:
    check("other_dags", bundle, others[bundle])
