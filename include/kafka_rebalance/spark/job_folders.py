"""The folders of the job's tables: local, or at a URL that Spark's connectors open (hdfs://, s3a://, gs://, file://).

The driver uses the planner's reader and writer, so that both ways to plan give the same bytes. The tables are small:
one row a partition, tens of megabytes for a million replicas.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from kafka_rebalance.documents.storage import Folder

PARQUET = ".parquet"


@contextmanager
def _java_errors() -> Iterator[None]:
    """Raises Java's errors as OSError, with Java's own message and without its stack."""
    try:
        yield
    except Py4JJavaError as wrong:
        raise OSError(str(wrong.java_exception.toString())) from wrong


class HadoopFolder:
    """A folder in Hadoop's FileSystem, with Spark's connectors and credentials."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self._spark, self._url = spark, url.rstrip("/")

    def __truediv__(self, name: str) -> HadoopFolder:
        return HadoopFolder(self._spark, f"{self._url}/{name}")

    def __str__(self) -> str:
        return self._url

    def _opened(self) -> tuple[Any, Any]:
        """(Hadoop's FileSystem, the path in it)."""
        context = self._spark.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(self._url)
        system = path.getFileSystem(context._jsc.hadoopConfiguration())
        system.setWriteChecksum(False)  # no .crc files in a local folder
        return system, path

    @_java_errors()
    def read_bytes(self) -> bytes:
        system, path = self._opened()
        if not system.exists(path):
            raise FileNotFoundError(f"there is no {self._url}")
        with closing(system.open(path)) as stream:
            return bytes(self._spark.sparkContext._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))

    @_java_errors()
    def parquet_files(self) -> list[str]:
        system, path = self._opened()
        found, root = system.listFiles(path, True), str(path.toUri().getPath()).rstrip("/")
        names = []
        while found.hasNext():
            names.append(str(found.next().getPath().toUri().getPath()).removeprefix(f"{root}/"))
        return sorted(name for name in names if name.endswith(PARQUET))

    @_java_errors()
    def write_bytes(self, data: bytes) -> int:
        system, path = self._opened()
        with closing(system.create(path, True)) as stream:
            stream.write(bytearray(data))
        return len(data)

    @_java_errors()
    def write_new(self, data: bytes) -> None:
        """Writes a file that appears only when it is complete."""
        parent, _, name = self._url.rpartition("/")
        part = HadoopFolder(self._spark, f"{parent}/_{name}.part")
        part.write_bytes(data)
        system, path = self._opened()
        if not system.rename(part._opened()[1], path):
            raise FileExistsError(f"{self._url} exists, or its folder does not")

    @_java_errors()
    def unlink(self) -> None:
        system, path = self._opened()
        system.delete(path, False)


def parquet_files(folder: Folder) -> list[str]:
    """The names, below the folder, of all Parquet files at any depth, sorted. Raises OSError."""
    if isinstance(folder, HadoopFolder):
        return folder.parquet_files()
    root = Path(str(folder))
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {root}")
    return sorted(path.relative_to(root).as_posix() for path in root.rglob(f"*{PARQUET}") if path.is_file())


def url_of(place: str) -> str:
    """The folder's URL for Spark's readers."""
    return place.rstrip("/") if "://" in place else f"file://{Path(place).absolute()}"


def job_folder(place: str, spark: SparkSession | None = None) -> Folder:
    """The folder at a local path, or at a URL that Spark opens."""
    if "://" not in place:
        return Path(place)
    return HadoopFolder(spark or SparkSession.builder.getOrCreate(), place)
