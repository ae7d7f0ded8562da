"""`make test-times`: where the last `make test` spent its time, by folder, file and test, from what pytest wrote."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

WRITTEN = Path(__file__).parents[1] / "build" / "tests.xml"
LISTED = 20


def main() -> int:
    if not WRITTEN.is_file():
        print(f"There is no {WRITTEN.relative_to(WRITTEN.parents[1])}. Run `make test` first.", file=sys.stderr)
        return 1
    suites = ElementTree.parse(WRITTEN).getroot()
    folders, files, tests = Counter[str](), Counter[str](), Counter[str]()
    for case in suites.iter("testcase"):
        parts, seconds = case.get("classname", "").split("."), float(case.get("time", 0))
        folders["/".join(parts[1:3])] += seconds
        files["/".join(parts[1:])] += seconds
        tests[f"{parts[-1]}::{case.get('name')}"] += seconds
    took = sum(float(suite.get("time", 0)) for suite in suites.iter("testsuite"))
    print(f"{len(list(suites.iter('testcase')))} tests, {folders.total():,.0f} s of them in {took:,.0f} s")
    for title, counted in (("folders", folders), ("files", files), ("tests", tests)):
        print(f"\n{title}")
        for name, seconds in counted.most_common(LISTED):
            print(f"{seconds:7.1f} s {seconds / folders.total():6.1%}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
