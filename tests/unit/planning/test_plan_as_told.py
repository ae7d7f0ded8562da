"""What the planner says while it plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.clusters import write_cluster
from kafka_rebalance.model.amounts_in_words import bound_in_words
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import run


@pytest.mark.slow
def test_the_line_of_a_plan_has_the_bound_of_the_proposals(tmp_path: Path) -> None:
    pytest.importorskip("highspy")  # else both bounds are the simple one
    write_cluster(tmp_path / "snapshot", "S", "drain", 1)
    said: list[str] = []
    settings = Settings(job="balance", tolerance=0.02, candidates=("balanced",))
    (plan,) = run(tmp_path / "snapshot", tmp_path / "out", settings, said.append)
    figures = plan.candidate.summary
    words = bound_in_words(figures["moved_bytes"], figures["moved_bytes_bound"])
    assert words
    assert words in said[-1]
    assert said[-2] == "candidate balanced is planned"
