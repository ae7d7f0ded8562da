"""The comparison of recorded runs: what it reads of a page, and which differences pass for words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.golden import records
from support.golden.figures import figures_in, figures_of_page
from support.golden.records import check, document_text, lines_of, only_words, recorded


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("At 12.5 MiB/s it takes 3 min, 1,024 times", ["12.5 MiB/s", "3 min", "1,024"]),
        ("3 of 14 partitions, 52\N{NO-BREAK SPACE}%", ["3", "14", "52 %"]),
        ("until 2026-05-04 02:10 UTC", ["2026-05-04 02:10"]),
        ("light \N{MIDDLE DOT} 85a602bb", ["85a602bb"]),
        ("of brokers 1, 2 and 3", ["1", "2", "3"]),
        ("2 moves in all", ["2"]),
    ],
)
def test_figures_come_with_their_units_and_without_words(text: str, figures: list[str]) -> None:
    assert figures_in(text) == figures


PAGE = """<head><title>7</title></head><h1>Run 1</h1><section id="a"><p>In <b>3</b> min</p><svg><text>9</text></svg>
<table><tr><th>Broker</th><td>orders</td><td>4 B<br>5 B</td></tr></table></section><p>6</p><img alt="8 s">"""


def test_figures_of_a_page_are_told_apart_by_section_and_cell() -> None:
    assert figures_of_page(PAGE, ["orders"]) == [
        {"section": "0", "text": ["1", "6", "8 s"]},
        {"section": "a", "text": ["3 min"]},
        {"section": "a", "table": 1, "rows": [["orders", "4 B 5 B"]]},
    ]


def document(**changes: Any) -> str:
    content = {"state": "done", "said": "3 of 14 partitions in 2 min", "bytes": 5, **changes}
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"said": "after 2 min 3 partitions of 14"}, True),
        ({"said": "3 of 15 partitions in 2 min"}, False),
        ({"said": "3 partitions in 2 min"}, False),
        ({"state": "moving"}, False),
        ({"state": "is done"}, False),
        ({"bytes": 5.0}, False),
        ({"more": None}, False),
    ],
)
def test_only_a_sentence_with_the_same_figures_passes_for_words(changes: dict[str, Any], words: bool) -> None:
    assert only_words(document(), document(**changes)) is words


def test_a_document_is_shorter_here_and_tells_any_other_byte() -> None:
    text = document(numbers=list(range(40)), deep={"a": {"b": []}})
    assert json.loads(document_text(text)) == json.loads(text)
    assert document_text(text).count("\n") < 10
    for other in (text.rstrip(), text.replace("5", "5.0"), json.dumps(json.loads(text)), text.replace('"a"', '"c"')):
        assert document_text(other) != document_text(text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(records, "FOLDER", tmp_path)
    monkeypatch.delenv(records.RECORD, raising=False)
    (tmp_path / "run").mkdir()
    return tmp_path


def record(monkeypatch: pytest.MonkeyPatch, mode: str, **entries: str) -> None:
    with monkeypatch.context() as recording:
        recording.setenv(records.RECORD, mode)
        with pytest.raises(pytest.skip.Exception):
            check("run", "all.txt", entries)


def test_what_is_recorded_is_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"a.json": document(), "b.json": document(), "c": lines_of([[1, "x"], [2, "y"]])}
    record(monkeypatch, "facts", **entries)
    assert recorded("run", "all.txt") == entries
    check("run", "all.txt", entries)
    check("run", "all.txt", {"c": entries["c"]}, whole=False)
    for other in ({**entries, "c": lines_of([[1, "x"]])}, {"a.json": document()}, {**entries, "d": "1\n"}):
        with pytest.raises(pytest.fail.Exception, match=r"(?s)not as recorded: .*RECORD_GOLDEN=words"):
            check("run", "all.txt", other)


def test_words_alone_are_recorded_where_only_words_are_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(monkeypatch, "facts", a=document())
    record(monkeypatch, "words", a=document(said="in 2 min 3 of 14"))
    before = recorded("run", "all.txt")
    with monkeypatch.context() as recording:
        recording.setenv(records.RECORD, "words")
        with pytest.raises(pytest.fail.Exception, match="more than sentences would change, in a"):
            check("run", "all.txt", {"a": document(bytes=6)})
    assert recorded("run", "all.txt") == before != {"a": document()}
