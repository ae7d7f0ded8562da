"""`make coverage`: which branches of the pure rooms the unit tests take, as a table into docs/test_strength.md."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from bench.pages import DOCS, with_section

ROOT = DOCS.parent


def pure_modules() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (modules,) = [contract["source_modules"] for contract in contracts if contract["id"] == "pure"]
    return list(modules)


WORK = ROOT / "build" / "coverage"
PAGE = DOCS / "test_strength.md"
SECTION = "coverage"
LEAST = 0.95
# What the contract "pure" in pyproject.toml names, and the planner.
PURE = ("kafka_rebalance.planning", *pure_modules())
ROOMS = tuple(dict.fromkeys(name.split(".")[1] for name in PURE))
SETTINGS = "[run]\nbranch = true\ndata_file = build/coverage/data\n[report]\nexclude_also =\n    if TYPE_CHECKING:\n"
# `golden` plans ten recorded runs, and `pages` reads all documents.
TESTS = (*(room for room in ROOMS if (ROOT / "tests" / "unit" / room).is_dir()), "golden", "pages")


def main(arguments: Sequence[str] | None = None) -> int:
    """Takes some minutes. Returns 1 if a test fails, or too few branches are taken."""
    argparse.ArgumentParser(prog="python -m bench.strength.branches", description=__doc__).parse_args(arguments)
    WORK.mkdir(parents=True, exist_ok=True)
    file = WORK / "coverage.json"
    settings = WORK / "coveragerc"
    settings.write_text(SETTINGS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses=2", f"--cov-config={settings}"]
    command += [f"--cov={name}" for name in PURE]
    command += [f"--cov-report=json:{file}", *(f"tests/unit/{name}" for name in TESTS)]
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        print("coverage: a test failed, see above. Nothing was written.")
        return 1
    files = json.loads(file.read_text(encoding="utf-8"))["files"]
    for name, missing in sorted(missing_in(files).items()):
        print(f"{name}: {', '.join(missing)}")
    lines, least = table(files)
    lines += ["", f"Measured on {time.strftime('%Y-%m-%d')}."]
    PAGE.write_text(with_section(PAGE, SECTION, lines), encoding="utf-8")
    print("\n".join(lines))
    return 0 if least >= LEAST else 1


def missing_in(files: Mapping[str, Any]) -> dict[str, list[str]]:
    """The branches that no test takes, by file: `from->to`, a negative line is the way out."""
    found = {name: [f"{a}->{b}" for a, b in told["missing_branches"]] for name, told in files.items()}
    return {name: missing for name, missing in found.items() if missing}


def table(files: Mapping[str, Any]) -> tuple[list[str], float]:
    """A line for each room, and the least share of branches that a room has."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, told in files.items():
        room = name.partition("kafka_rebalance/")[2].split("/")[0].removesuffix(".py")
        summary = told["summary"]
        for which in (f"`{room}`", "all"):
            counts[which].update(
                branches=summary["num_branches"],
                taken=summary["covered_branches"],
                lines=summary["num_statements"],
                run=summary["covered_lines"],
            )
    rows = []
    for name in (*(f"`{room}`" for room in ROOMS), "all"):
        row = counts[name]
        run, taken = share(row, "run", "lines"), share(row, "taken", "branches")
        rows.append(f"| {name} | {row['lines']} | {run} | {row['branches']} | {taken} |")
    head = ["| room | statements | run | branches | taken |", "|---|---:|---:|---:|---:|"]
    least = min(row["taken"] / row["branches"] for row in counts.values() if row["branches"])
    return [*head, *rows], least


def share(row: Counter[str], part: str, whole: str) -> str:
    return f"{row[part] / max(1, row[whole]):.1%}"


if __name__ == "__main__":
    sys.exit(main())
