"""A zip for `py_files` with the rooms that a Spark job needs: without Airflow and cluster clients."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TypeVar

import kafka_rebalance
from kafka_rebalance.documents.storage import FolderOfRuns, make_folder, write_whole

ROOMS = ("model", "kafka", "documents", "planning", "spark")
Target = TypeVar("Target", bound=FolderOfRuns)
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date of a zip; a fixed date gives same sources the same bytes


def build_package_zip(target: Target) -> Target:
    """Writes the zip to `target` and returns it. Its bytes depend only on the sources."""
    root = Path(kafka_rebalance.__file__).parent
    sources = [root / "__init__.py", root / "errors.py"]
    sources += [source for room in ROOMS for source in (root / room).rglob("*.py")]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(sources):
            entry = zipfile.ZipInfo(source.relative_to(root.parent).as_posix(), _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, source.read_bytes())
    make_folder(target.parent)
    write_whole(target, content.getvalue())
    return target
