"""Resolves the dependencies of `ROOTS` again and prints a lock file.

`python -m kafka_rebalance.local_cluster.jars.make_lock VERSION` does so for a version of Kafka, `tools-3.9.2` for
Kafka's tools, `tiered-3.9.2` for its remote storage in a folder, and `spark-4.2.0` for Spark's Kafka source.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kafka_rebalance.local_cluster.jars.fetch import fetch, resolve
from kafka_rebalance.local_cluster.jars.locked_jars import ALONE, DEFAULT_VERSION, ROOTS, Jar, sha256_of


def write_lock(jars: Sequence[Jar]) -> str:
    """A lock file's text."""
    return "".join(f"{jar.sha256}  {jar.name}\n" for jar in sorted(jars, key=lambda jar: jar.name))


def main() -> None:
    version = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_VERSION
    if version in ROOTS:
        jars = resolve(ROOTS[version])
    elif version in ALONE:
        wanted = [
            Jar(group, artifact, number, "", *classifier)
            for group, artifact, number, *classifier in (name.split(":") for name in ALONE[version])
        ]
        with tempfile.TemporaryDirectory(prefix="local-cluster-") as folder:
            fetch(wanted, Path(folder))
            jars = tuple(replace(jar, sha256=sha256_of(Path(folder) / jar.file_name)) for jar in wanted)
    else:
        sys.exit(f"{version} is unknown. Nothing was resolved. Choose one of {', '.join((*ROOTS, *ALONE))}.")
    sys.stdout.write(write_lock(jars))


if __name__ == "__main__":
    main()
