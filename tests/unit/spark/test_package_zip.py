"""The zip for Spark holds all that its code imports: on a cluster's nodes there is nothing else of the package."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from kafka_rebalance.spark.package_zip import build_package_zip


def test_every_module_in_the_zip_can_be_imported_from_the_zip_alone(tmp_path: Path) -> None:
    archive = build_package_zip(tmp_path / "code.zip")
    files = [name for name in zipfile.ZipFile(archive).namelist() if not name.endswith(("__init__.py", "__main__.py"))]
    names = [name.removesuffix(".py").replace("/", ".") for name in files]
    assert "kafka_rebalance.spark.job" in names
    imports = f"[importlib.import_module(name) for name in {names!r}]"
    code = f"import importlib, kafka_rebalance; {imports}; print(kafka_rebalance.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(archive))
