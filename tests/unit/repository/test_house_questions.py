"""The questions of `scripts/house_questions.json` have answers that are there."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_each_answer_is_a_module_that_defines_what_is_asked_for() -> None:
    questions = json.loads((ROOT / "scripts/house_questions.json").read_text(encoding="utf-8"))
    for asked in questions:
        module = ROOT / "include/kafka_rebalance" / f"{asked['module'].replace('.', '/')}.py"
        text = module.read_text(encoding="utf-8")
        assert asked["names"], asked["question"]
        assert all(re.search(rf"\b(?:def|class) {name}\b", text) for name in asked["names"]), asked["question"]
    assert len(questions) == 40
