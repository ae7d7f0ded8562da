"""What ten recorded runs left behind, in `tests/data/golden/<run>`: compared entry by entry, and recorded on purpose.

A bundle is a text of entries, `=== <name>` and below it the content. `given.json` is what a run starts from: it was
drawn once, and is never recorded. `RECORD_GOLDEN` writes the other files: `words` takes changed sentences and refuses
every other difference, `facts` takes everything. See `tests/data/golden/README.md`.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from support.golden.figures import figures_in

FOLDER = Path(__file__).parents[2] / "data" / "golden"
RUNS = tuple(sorted(path.parent.name for path in FOLDER.glob("*/given.json")))
OWN_TABLES = "own_tables"  # of the planner alone: no chain makes such tables
RECORD, WORDS, FACTS = "RECORD_GOLDEN", "words", "facts"
LIBRARIES = ("highspy", "numpy", "pyarrow")  # an upgrade of these may change plans, or bytes that digests are of
DIFF_LINES = 40  # of one entry
LINE = 200  # characters of a document's line at most, where it can be broken
HOW = f"""
A commit that only moves, renames or merges code changes none of this: correct the code, not the record.
Where a commit is meant to change it, record anew, read `git diff tests/data/golden`, and commit both together:
  {RECORD}={WORDS} .venv/bin/pytest tests/workflow/golden/test_chain.py tests/unit/golden/test_runs.py
      for sentences alone: it refuses where a figure, a name, a key, a state or a digest would change
  {RECORD}={FACTS} (the same command)
      for everything else: only where the commit's message says what changes and why
"""

_AS = "as "  # and the name of another entry of the bundle, which has the same content

Entries = Mapping[str, str]


def given(run: str) -> dict[str, Any]:
    """What the run starts from."""
    found: dict[str, Any] = json.loads((FOLDER / run / "given.json").read_text(encoding="utf-8"))
    return found


def recorded(run: str, bundle: str) -> dict[str, str]:
    """The bundle's entries by name; none where it was never recorded."""
    path = FOLDER / run / bundle
    parts = re.split(r"^=== (.+)\n", path.read_text(encoding="utf-8") if path.exists() else "", flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {name: found[text[len(_AS) : -1]] if text.startswith(_AS) else text for name, text in found.items()}


def check(run: str, bundle: str, entries: Entries, *, whole: bool = True) -> None:
    """Fails where an entry differs from the record. `whole`: also where the record has others; else they stay.

    With `RECORD_GOLDEN` it writes them, and skips the test, so that nobody takes a recording for a comparison.
    """
    before = recorded(run, bundle)
    wanted = before if whole else {name: before[name] for name in before if name in entries}
    mode = os.environ.get(RECORD)
    if mode is not None:
        _record(run, bundle, mode, before, {**({} if whole else before), **entries})
    names = [name for name in dict.fromkeys((*wanted, *entries)) if wanted.get(name) != entries.get(name)]
    if names:
        told = "\n".join(difference(name, wanted.get(name), entries.get(name)) for name in names)
        pytest.fail(
            f"{run}/{bundle} is not as recorded: {len(names)} of {len(wanted)} entries.\n\n{told}{HOW}{_versions()}",
            pytrace=False,
        )


def _record(run: str, bundle: str, mode: str, before: Entries, now: Entries) -> None:
    if mode not in (WORDS, FACTS):
        pytest.fail(f"{RECORD} is {mode!r}, neither {WORDS} nor {FACTS}. Nothing was recorded.", pytrace=False)
    more = [name for name in dict.fromkeys((*before, *now)) if not only_words(before.get(name), now.get(name))]
    if mode == WORDS and more:
        told = "\n".join(difference(name, before.get(name), now.get(name)) for name in more)
        pytest.fail(
            f"{run}/{bundle}: more than sentences would change, in {', '.join(more)}. Nothing of it was recorded."
            f"\n\n{told}{HOW}",
            pytrace=False,
        )
    path = FOLDER / run / bundle
    first = {text: name for name, text in reversed(list(now.items()))}
    kept = {name: text if first[text] == name else f"{_AS}{first[text]}\n" for name, text in now.items()}
    path.write_text("".join(f"=== {name}\n{text}" for name, text in kept.items()), encoding="utf-8")
    (FOLDER / "versions.json").write_text(json.dumps(_installed(), indent=1) + "\n", encoding="utf-8")
    pytest.skip(f"recorded {path.name} of {run}: read the difference, and run again without {RECORD}")


def difference(name: str, before: str | None, now: str | None) -> str:
    """The lines that differ, without what is alike around them."""
    if before is None or now is None:
        return f"{name}: {'was not recorded' if before is None else 'is not there any more'}\n"
    lines = list(difflib.unified_diff(before.splitlines(), now.splitlines(), "recorded", "now", lineterm="", n=1))
    left_out = f"\n... and {len(lines) - DIFF_LINES} more lines" if len(lines) > DIFF_LINES else ""
    return f"{name}\n" + "\n".join(lines[:DIFF_LINES]) + left_out + "\n"


def only_words(before: str | None, now: str | None) -> bool:
    """Whether nothing but sentences differs: their figures are the same, perhaps in another order."""
    if before is None or now is None:
        return before is now
    return before == now or [_facts(line) for line in _values(before)] == [_facts(line) for line in _values(now)]


def _values(text: str) -> list[Any]:
    """One document, or one value a line."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def _facts(value: Any) -> Any:
    """The value with each sentence reduced to the figures in it: a sentence is a text with a blank.

    Figures of a page (`{"text": [...]}`) may stand in another order too. A file's digest of the file that it came from
    changes with the words of that one.
    """
    if isinstance(value, dict):
        return {
            key: Counter(map(str, each)) if key == "text" and isinstance(each, list) else _facts(each)
            for key, each in value.items()
            if key != "source_digest"
        }
    if isinstance(value, list):
        return [_facts(each) for each in value]
    if isinstance(value, str) and " " in value:
        return Counter(figures_in(value))
    return json.dumps(value)  # 1, 1.0 and true are equal in Python


def document_text(content: str) -> str:
    """A JSON file as it is kept here: what fits on a line stands on one, where that loses no byte of the file.

    The product writes a value a line, keys in order: then equal values are equal files. Any other form stays as it is.
    """
    value = json.loads(content)
    as_written = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    return _narrow(value) + "\n" if content == as_written else content


def _narrow(value: Any, depth: int = 0) -> str:
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or not value or len(line) + depth <= LINE:
        return line
    keys = (
        [f"{json.dumps(key, ensure_ascii=False)}: " for key in value] if isinstance(value, dict) else [""] * len(value)
    )
    values = value.values() if isinstance(value, dict) else value
    inner = [f"{' ' * (depth + 1)}{key}{_narrow(each, depth + 1)}" for key, each in zip(keys, values, strict=True)]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n" + ",\n".join(inner) + f"\n{' ' * depth}{last}"


def csv_text(content: str) -> str:
    """A CSV file: its columns, how many rows, and a digest of their cells without the words of a sentence."""
    head, *rows = csv.reader(io.StringIO(content))
    facts = [[figures_in(cell) if " " in cell else cell for cell in row] for row in rows]
    return lines_of(
        [{"columns": head, "rows": len(rows), "facts": hashlib.sha256(lines_of(facts).encode()).hexdigest()}]
    )


def lines_of(rows: Sequence[Any]) -> str:
    """One value a line, so that a difference can be read."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _installed() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES}


def _versions() -> str:
    """What to know where the libraries are others than at the recording."""
    path = FOLDER / "versions.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    other = [
        f"{name} {before.get(name)}, now {here}" for name, here in _installed().items() if here != before.get(name)
    ]
    return f"The libraries are others than at the recording: {'; '.join(other)}.\n" if other else ""
