"""Fetches jars by name from Maven Central, with Ivy from the pyspark wheel, or else with Maven.

No address is written here. Both tools know Maven Central, and Maven also reads the user's own settings and mirrors.
"""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.jars.locked_jars import Jar, sha256_of
from kafka_rebalance.local_cluster.machine.java import find_java, java_home

FETCH_TIMEOUT_SECONDS = 300

_IVY_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="local" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
# The lock is the whole list, and this package checks its hashes. So Ivy needs no POM, no metadata and no checksum file:
# 57 requests instead of 400 (13 s instead of 56 s for 3.9.2).
_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers>
    <ibiblio name="central" m2compatible="true" usepoms="false" useMavenMetadata="false" checksums=""/>
  </resolvers>
</ivysettings>
"""
_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


def fetch(jars: Sequence[Jar], folder: Path) -> None:
    """Put exactly these jars into `folder`, by their file names. The caller checks their content."""
    failures = []
    for tool in (_fetch_with_ivy, _fetch_with_maven):
        try:
            tool(jars, folder)
        except LocalClusterError as error:
            failures.append(str(error))
            continue
        missing = [jar.name for jar in jars if not (folder / jar.file_name).is_file()]
        if not missing:
            return
        failures.append(f"{tool.__name__.removeprefix('_fetch_with_').capitalize()} did not fetch {', '.join(missing)}")
    raise LocalClusterError(
        f"{len(jars)} jars could not be fetched from Maven Central. "
        + ". ".join(failures)
        + ". The cache was not changed. Check the network, or give Maven a mirror in ~/.m2/settings.xml."
    )


def resolve(roots: Sequence[str]) -> tuple[Jar, ...]:
    """Every jar that `roots` (`group:artifact:version`) depend on, resolved by Ivy, with the fetched jar's sha256."""
    with tempfile.TemporaryDirectory(prefix="local-cluster-") as scratch:
        folder = Path(scratch)
        lines = []
        for root in roots:
            group, artifact, version = root.split(":")
            lines.append(
                f'    <dependency org="{group}" name="{artifact}" rev="{version}" conf="default-&gt;default"/>'
            )
        (folder / "ivy.xml").write_text(_IVY_MODULE.format(dependencies="\n".join(lines)), encoding="utf-8")
        # Without `bundle` Ivy silently leaves out seven of Kafka's jars (jackson-module-scala, snappy, …).
        _run_ivy(folder, "-types", "jar", "bundle", pattern="lib/[organisation]/[artifact]/[revision]/jar.[ext]")
        jars = []
        for path in (folder / "lib").glob("*/*/*/jar.jar"):
            group, artifact, version = path.relative_to(folder / "lib").parts[:3]
            jars.append(Jar(group=group, artifact=artifact, version=version, sha256=sha256_of(path)))
    return tuple(sorted(jars))


def _fetch_with_ivy(jars: Sequence[Jar], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".ivy-", dir=folder) as scratch:
        lines = [
            f'    <dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" transitive="false">'
            f'<artifact name="{jar.artifact}" type="jar" ext="jar"{_ivy_classifier(jar)}/></dependency>'
            for jar in jars
        ]
        work = Path(scratch)
        (work / "ivy.xml").write_text(_IVY_MODULE.format(dependencies="\n".join(lines)), encoding="utf-8")
        (work / "ivysettings.xml").write_text(_IVY_SETTINGS, encoding="utf-8")
        _run_ivy(work, "-settings", "ivysettings.xml", pattern=f"{folder}/[artifact]-[revision](-[classifier]).[ext]")


def _ivy_classifier(jar: Jar) -> str:
    return f' m:classifier="{jar.classifier}"' if jar.classifier else ""


def _run_ivy(work: Path, *options: str, pattern: str) -> None:
    wheel = importlib.util.find_spec("pyspark")
    ivy = sorted((Path(wheel.origin).parent / "jars").glob("ivy-*.jar")) if wheel and wheel.origin else []
    if not ivy:
        raise LocalClusterError("Ivy was not found. It comes with the pyspark wheel (requirements.txt)")
    # The user folder too: Ivy would otherwise leave ~/.ivy2 behind.
    command = [str(find_java()), f"-Divy.default.ivy.user.dir={work / 'user'}", "-cp", str(ivy[-1])]
    command += ["org.apache.ivy.Main", "-error", "-ivy", "ivy.xml", "-cache", str(work / "cache")]
    _run("Ivy", [*command, "-confs", "default", *options, "-retrieve", pattern], work)


def _fetch_with_maven(jars: Sequence[Jar], folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise LocalClusterError("Maven was not found: there is no mvn on PATH")
    with tempfile.TemporaryDirectory(prefix=".maven-", dir=folder) as scratch:
        lines = [
            f"    <dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
            f"<version>{jar.version}</version>{_maven_classifier(jar)}</dependency>"
            for jar in jars
        ]
        work = Path(scratch)
        (work / "pom.xml").write_text(_POM.format(dependencies="\n".join(lines)), encoding="utf-8")
        command = [maven, "-q", "-B", "-ntp", "dependency:copy-dependencies", "-DexcludeTransitive=true"]
        _run("Maven", [*command, f"-DoutputDirectory={folder}"], work)


def _maven_classifier(jar: Jar) -> str:
    return f"<classifier>{jar.classifier}</classifier>" if jar.classifier else ""


def _run(tool: str, command: list[str], work: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": str(java_home())}
    try:
        done = subprocess.run(
            command,
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LocalClusterError(f"{tool} did not end within {FETCH_TIMEOUT_SECONDS} s, and was killed") from error
    if done.returncode != 0:
        said = " ".join((done.stdout + " " + done.stderr).split())
        raise LocalClusterError(f"{tool} ended with {done.returncode}: {said[-600:] or 'it said nothing'}")
