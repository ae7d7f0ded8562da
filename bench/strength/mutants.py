"""`make mutation`: changes the code that decides a write, place by place, and counts the changes that no test notices.

mutmut works in a copy (`build/mutation`), whose layout it expects. A line that holds nothing but the words of a
sentence is not changed: no code reads one. Mutants that no test can tell from the code stand in the page's own table.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from bench.pages import DOCS, with_section

ROOT = DOCS.parent
WORK = ROOT / "build" / "mutation"
PAGE = DOCS / "test_strength.md"
SECTION = "mutation"
LEAST = 0.95
MODULES = (
    "model/partition.py",
    "moves/move_stage.py",
    "run/approval_rules.py",
    "run/checks/*",
    "throttle/in_force.py",
    "throttle/put_back.py",
    "throttle/rates.py",
    "zookeeper/znodes.py",
)
TESTS = (
    "tests/unit/cancel",
    "tests/unit/log_dirs",
    "tests/unit/moves",
    "tests/unit/nightly",
    "tests/unit/rebalance",
    "tests/unit/run",
    "tests/unit/throttle",
    "tests/unit/topics",
    "tests/unit/model/test_candidate.py",
    "tests/unit/zookeeper/test_znodes.py",
)
NEEDED = (
    "tests/conftest.py",
    "tests/unit/conftest.py",
    "tests/support",
    "tests/data/znodes",
    "tests/data/moves",
    "bench",
)
WORDS = r'^\s*f?"[^"{]* [^"{]*"[,)]*$'
SURVIVED, NO_TESTS = "survived", "no tests"
EQUIVALENT = re.compile(r"^\| `([\w.]+)` ([\d, ]+) \| .+ \|$", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Takes ten minutes. Returns 1 if too few mutants are noticed."""
    argparse.ArgumentParser(prog="python -m bench.strength.mutants", description=__doc__).parse_args(arguments)
    make_copy()
    mutmut = [sys.executable, "-m", "mutmut"]
    subprocess.run([*mutmut, "run", "--max-children=2"], cwd=WORK, check=True)
    told = subprocess.run(
        [*mutmut, "results", "--all=true"], cwd=WORK, check=True, capture_output=True, text=True
    ).stdout
    results = results_in(told)
    equivalent = equivalent_in(PAGE.read_text(encoding="utf-8"))
    for name in sorted(equivalent - {one for one, status in results.items() if status in (SURVIVED, NO_TESTS)}):
        print(f"{name} is in the table of {PAGE.name}, and a test kills it, or it is gone: correct the table.")
    for name, status in sorted(results.items()):
        if status in (SURVIVED, NO_TESTS) and name not in equivalent:
            print(f"{status}: {name}")
    lines, score = table(results, equivalent)
    lines += ["", f"Measured on {time.strftime('%Y-%m-%d')}."]
    PAGE.write_text(with_section(PAGE, SECTION, lines), encoding="utf-8")
    print("\n".join(lines))
    return 0 if score >= LEAST else 1


def make_copy() -> None:
    """The package below `src/`, the tests that are to notice, and mutmut's settings."""
    shutil.rmtree(WORK, ignore_errors=True)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "include" / "kafka_rebalance", WORK / "src" / "kafka_rebalance", ignore=ignore)
    for name in (*NEEDED, *TESTS):
        (WORK / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, WORK / name, ignore=ignore, dirs_exist_ok=True)
        else:
            shutil.copy(ROOT / name, WORK / name)
    shutil.copy(ROOT / "pyproject.toml", WORK)
    settings = {
        "source_paths": ["src"],
        "only_mutate": [f"src/kafka_rebalance/{name}" for name in MODULES],
        "do_not_mutate_patterns": [WORDS],
        "also_copy": ["bench"],
        "pytest_add_cli_args": ["-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": TESTS,
    }
    text = "".join(f"{key}=\n" + "".join(f"    {value}\n" for value in values) for key, values in settings.items())
    (WORK / "setup.cfg").write_text(f"[mutmut]\n{text}", encoding="utf-8")


def results_in(told: str) -> dict[str, str]:
    """What became of each mutant, by `module.function number`."""
    found = re.findall(r"^\s*kafka_rebalance\.(\S+?)__mutmut_(\d+): (.+)$", told, flags=re.MULTILINE)
    return {f"{plain(name)} {number}": status.strip() for name, number, status in found}


def plain(name: str) -> str:
    """mutmut's `check.x_f` and `check.xǁCǁf` as `check.f` and `check.C.f`."""
    module, _, function = name.rpartition(".")
    return f"{module}.{function[2:].replace('ǁ', '.')}"


def equivalent_in(page: str) -> set[str]:
    return {f"{name} {number}" for name, numbers in EQUIVALENT.findall(page) for number in numbers.split(", ")}


def table(results: Mapping[str, str], equivalent: set[str]) -> tuple[list[str], float]:
    """The table, a line for each module, and the score of all."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, status in results.items():
        lives = status in (SURVIVED, NO_TESTS)
        kind = "equivalent" if lives and name in equivalent else "alive" if lives else "killed"
        for row in (module_of(name), "all"):
            counts[row][kind] += 1
    order = sorted(counts.items(), key=lambda item: (item[0] == "all", item[0]))
    rows = [
        f"| {name} | {row.total()} | {row['equivalent']} | {row['alive']} | {score(row):.1%} |" for name, row in order
    ]
    head = ["| module | mutants | equivalent | not noticed | score |", "|---|---:|---:|---:|---:|"]
    return [*head, *rows], score(counts["all"])


def module_of(name: str) -> str:
    """Its file, or the folder where several of its neighbours are measured too."""
    parts = name.partition(" ")[0].split(".")
    return next(f"`{one}`" for one in MODULES if "/".join(parts).startswith(one.removesuffix(".py").rstrip("*")))


def score(row: Counter[str]) -> float:
    """The share of mutants that a test notices, of those that one can."""
    return row["killed"] / max(1, row["killed"] + row["alive"])


if __name__ == "__main__":
    sys.exit(main())
