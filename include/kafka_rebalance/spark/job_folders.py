"""Where the job's tables are: a local folder, or any URL that Spark's own connectors open (hdfs://, s3a://, gs://, file://).

The driver reads and writes them with the planner's own reader and writer, so that both ways of running give the same
bytes. They are small: one row a partition, tens of megabytes for a million replicas.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from kafka_rebalance.documents.storage import Folder

PARQUET = ".parquet"


class HadoopFolder:
    """A folder behind Hadoop's FileSystem: Spark's connectors and credentials, none of our own."""

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
        system.setWriteChecksum(False)  # no .crc files beside ours where the folder is local
        return system, path

    def read_bytes(self) -> bytes:
        try:
            system, path = self._opened()
            if not system.exists(path):
                raise FileNotFoundError(f"there is no {self._url}")
            stream = system.open(path)
            try:
                return bytes(self._spark.sparkContext._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()
        except Py4JJavaError as wrong:
            raise OSError(_text(wrong)) from wrong

    def parquet_files(self) -> list[str]:
        """The names, below this folder, of all Parquet files at any depth, sorted."""
        try:
            system, path = self._opened()
            found, root = system.listFiles(path, True), str(path.toUri().getPath()).rstrip("/")
            names = []
            while found.hasNext():
                names.append(str(found.next().getPath().toUri().getPath()).removeprefix(f"{root}/"))
        except Py4JJavaError as wrong:
            raise OSError(_text(wrong)) from wrong
        return sorted(name for name in names if name.endswith(PARQUET))

    def write_bytes(self, data: bytes) -> int:
        try:
            system, path = self._opened()
            stream = system.create(path, True)
            try:
                stream.write(bytearray(data))
            finally:
                stream.close()
        except Py4JJavaError as wrong:
            raise OSError(_text(wrong)) from wrong
        return len(data)

    def write_new(self, data: bytes) -> None:
        """A file that nobody finds before it is whole."""
        parent, _, name = self._url.rpartition("/")
        part = HadoopFolder(self._spark, f"{parent}/_{name}.part")
        part.write_bytes(data)
        try:
            system, path = self._opened()
            if not system.rename(part._opened()[1], path):
                raise FileExistsError(f"{self._url} is there, or its folder is not")
        except Py4JJavaError as wrong:
            raise OSError(_text(wrong)) from wrong

    def unlink(self) -> None:
        try:
            system, path = self._opened()
            system.delete(path, False)
        except Py4JJavaError as wrong:
            raise OSError(_text(wrong)) from wrong


def parquet_files(folder: Folder) -> list[str]:
    """The names, below the folder, of all Parquet files at any depth, sorted. Raises OSError."""
    if isinstance(folder, HadoopFolder):
        return folder.parquet_files()
    root = Path(str(folder))
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {root}")
    return sorted(path.relative_to(root).as_posix() for path in root.rglob(f"*{PARQUET}") if path.is_file())


def _text(wrong: Py4JJavaError) -> str:
    """Java's own message, without its stack."""
    return str(wrong.java_exception.toString())


def url_of(place: str) -> str:
    """The folder as Spark's readers name it."""
    return place.rstrip("/") if "://" in place else f"file://{Path(place).absolute()}"


def job_folder(place: str, spark: SparkSession | None = None) -> Folder:
    """The folder at a local path, or at a URL through Spark."""
    if "://" not in place:
        return Path(place)
    return HadoopFolder(spark or SparkSession.builder.getOrCreate(), place)
