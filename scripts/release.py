"""Makes a release and publishes nothing: `make release VERSION=1.2.3`. With DRY=1 it only checks.

It sets the version, dates the changelog's newest heading, builds sdist and wheel, commits and tags. If anything fails,
the checkout is as it was.
"""

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION_FILE = ROOT / "include" / "kafka_rebalance" / "__init__.py"
CHANGELOG = ROOT / "CHANGELOG.md"
DIST = ROOT / "dist"
HEADING = re.compile(r"^## (\d+\.\d+\.\d+)(.*)$", re.MULTILINE)
UNRELEASED = ", not released"


class NotReleasedError(Exception):
    """What stands in the way, and what to do."""


def main() -> None:
    version, dry = (sys.argv[1] if len(sys.argv) > 1 else ""), bool(os.environ.get("DRY"))
    try:
        check_release(version)
        if dry:
            print(f"Dry run: nothing was changed. `make release VERSION={version}` would {' '.join(steps(version))}")
            return
        make_release(version)
    except NotReleasedError as why:
        sys.exit(f"release: {why} Nothing was released.")
    print(what_is_left(version))


def check_release(version: str) -> None:
    """Raises NotReleasedError unless this checkout may become that version."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise NotReleasedError(f"{version!r} is no version. Name one: make release VERSION=1.2.3.")
    if git("status", "--porcelain"):
        raise NotReleasedError("The checkout has changes that are not committed. Commit or remove them.")
    if f"v{version}" in git("tag", "--list").split():
        raise NotReleasedError(f"There is a tag v{version} already. Choose another version.")
    headings = HEADING.findall(CHANGELOG.read_text(encoding="utf-8"))
    if headings[0][1] != UNRELEASED:
        raise NotReleasedError(
            f"The newest heading of CHANGELOG.md is {headings[0][0]}{headings[0][1]}. Say what the release brings "
            f"under `## {version}{UNRELEASED}`."
        )
    older = [parts(number) for number, _ in headings[1:]]
    if any(parts(version) <= number for number in older):
        raise NotReleasedError(f"{version} is not above {'.'.join(map(str, max(older)))}, which CHANGELOG.md has.")
    if not (ROOT / "tests" / "data" / "upgrades" / version).is_dir():
        raise NotReleasedError(
            f"tests/data/upgrades/{version} is missing, so no later version is tested to go on from this one. "
            "The README in tests/data/upgrades says how to record it."
        )
    if subprocess.run(["make", "check"], cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode != 0:
        raise NotReleasedError("`make check` fails. See its output above.")


def make_release(version: str) -> None:
    before = {path: path.read_text(encoding="utf-8") for path in (VERSION_FILE, CHANGELOG)}
    try:
        code = re.sub(r'__version__ = "[^"]*"', f'__version__ = "{version}"', before[VERSION_FILE], count=1)
        VERSION_FILE.write_text(code, encoding="utf-8")
        heading = f"## {version}, {datetime.now(UTC):%Y-%m-%d}"
        CHANGELOG.write_text(HEADING.sub(heading, before[CHANGELOG], count=1), encoding="utf-8")
        shutil.rmtree(DIST, ignore_errors=True)
        # setuptools is one of the pinned packages, so nothing is fetched. The wheel is made from the sdist.
        run(sys.executable, "-m", "uv", "build", "--quiet", "--no-build-isolation", "--python", sys.executable)
        run("git", "commit", "--quiet", "--all", "--message", f"Release {version}")
    except BaseException:
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")
        raise
    run("git", "tag", "--annotate", f"v{version}", "--message", f"Release {version}")


def steps(version: str) -> list[str]:
    return [
        f"set __version__ to {version},",
        f"date the newest heading of {CHANGELOG.name},",
        f"build sdist and wheel into {DIST.name}/,",
        f"commit, and tag v{version}.",
    ]


def what_is_left(version: str) -> str:
    built = "\n".join(f"  {path.relative_to(ROOT)}" for path in sorted(DIST.iterdir()) if path.suffix != ".gitignore")
    return f"""Released {version} in this checkout. Nothing was published.
{built}
To publish it:
  git push origin HEAD v{version}
  .venv/bin/uv publish dist/*{version}*
To take it back before that:
  git tag --delete v{version}; git reset --hard HEAD~1
Then open the next version: a new heading with `{UNRELEASED[2:]}` in {CHANGELOG.name}, and its number as __version__."""


def parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise NotReleasedError(f"`{' '.join(command)}` ended with {done.returncode}. See its output above.")


if __name__ == "__main__":
    main()
