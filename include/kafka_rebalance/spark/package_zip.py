"""A zip for `py_files` with the rooms that a Spark job needs: without Airflow and cluster clients.

It is code, so each submit builds it anew from the installed package, in a folder of its own. Whoever can write to the
runs' storage must not choose what runs with Spark's rights and the task's environment.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import kafka_rebalance

PACKAGE_ZIP = "kafka_rebalance.zip"
MODULES = ("__init__.py", "clock.py", "errors.py")
ROOMS = ("model", "kafka", "documents", "planning", "spark")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date of a zip; a fixed date gives same sources the same bytes


def build_package_zip(target: Path) -> Path:
    """Writes the zip to `target` and returns it. Its bytes depend only on the sources."""
    root = Path(kafka_rebalance.__file__).parent
    sources = [root / name for name in MODULES]
    sources += [source for room in ROOMS for source in (root / room).rglob("*.py")]
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(sources):
            entry = zipfile.ZipInfo(source.relative_to(root.parent).as_posix(), _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, source.read_bytes())
    return target
