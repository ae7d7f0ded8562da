"""Takes the newest versions that requirements*.in allow, installs them, and says what changed: `make update`."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("requirements", "requirements-dev", "requirements-java")
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
HELD = re.compile(r"^[A-Za-z0-9._-]+\s*(?:==|<|~=)\S+", re.MULTILINE)
AFTERWARDS = """
Run next, and commit requirements*.txt with what they ask for:
  make check      format, lint, types, import contracts, unit tests
  make test       everything, on real brokers and a real Airflow
  make audit      known vulnerabilities
A newer highspy, numpy or pyarrow may change plans or digests: see tests/data/golden/README.md.
A newer Airflow may take away what docs/airflow_imports.md lists: tests/workflow/dags/test_airflow_imports.py names it.
"""


def main() -> None:
    before = pins(ROOT)
    make("lock", "UPGRADE=1")
    after = pins(ROOT)
    make("setup")
    told = changes(before, after)
    print("\n".join(told) if told else "All packages are the newest that requirements*.in allow.")
    print("Held by requirements*.in:", ", ".join(held(ROOT)))
    print(AFTERWARDS if told else "")


def pins(folder: Path) -> dict[str, str]:
    """The version of each pinned package."""
    return dict(one for name in NAMES for one in PIN.findall((folder / f"{name}.txt").read_text()))


def held(folder: Path) -> list[str]:
    """The requirements that keep a package from its newest version."""
    return [one for name in NAMES for one in HELD.findall((folder / f"{name}.in").read_text())]


def changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """A line for each package that is new, gone or of another version."""
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return [f"{name}: {before.get(name, 'new')} → {after.get(name, 'gone')}" for name in names]


def make(*arguments: str) -> None:
    done = subprocess.run(["make", *arguments], cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit(
            f"`make {' '.join(arguments)}` ended with {done.returncode}. See the error above. "
            "`git checkout requirements*.txt` and `make setup` take back what was upgraded."
        )


if __name__ == "__main__":
    main()
