"""Files on a disk or in a bucket. "It is not there" and "it cannot be read" are never the same answer.

Every failure but "not found" is a StorageError: Python's own errors, and those of a bucket's client, which may have
errors of its own. `exists()` is not used, because it also says no if a bucket does not answer.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, Self

from kafka_rebalance.errors import StorageError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)
# A disk takes names of 255 bytes. `.parquet` comes behind one, and while a file is written, `.` and 22 more around it.
# A run id of Airflow's has up to 250 characters, and some names hold a Dag, a connection or a time beside it.
_LONGEST_NAME = 200


class Folder(Protocol):
    """The part of pathlib that a run's folder needs."""

    def __truediv__(self, name: str) -> Self: ...
    def read_bytes(self) -> bytes: ...
    def write_bytes(self, data: bytes) -> int: ...


class OnDisk(Protocol):
    """A file or folder: a `Path`, or an `ObjectStoragePath` in a bucket."""

    def stat(self) -> Any: ...
    def unlink(self, missing_ok: bool = False) -> None: ...


class FolderOfRuns(Folder, OnDisk, Protocol):
    @property
    def name(self) -> str: ...
    @property
    def parent(self) -> Self: ...
    def with_name(self, name: str) -> Self: ...


def file_name(name: str) -> str:
    """A name that is safe in any storage, and different for different run ids."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name).strip(".") or "_"
    if len(safe) > _LONGEST_NAME - 9:
        return f"{safe[: _LONGEST_NAME - 33]}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def is_there(file: OnDisk) -> bool:
    """Whether there is such a file or folder. Raises StorageError if storage does not answer."""
    with _asked(file, "cannot be looked at"):
        try:
            _forget_listings(file)
            file.stat()
        except FileNotFoundError:
            return False
    return True


def read_bytes(file: Folder) -> bytes:
    """The file's content. Raises FileNotFoundError, and StorageError if storage does not answer."""
    with _asked(file, "cannot be read"):
        if isinstance(file, Path):
            return file.read_bytes()
        # One request for the whole file. `read_bytes` asks for its size first, and fails if somebody then writes it.
        content: bytes = file.fs.cat_file(file.path)  # type: ignore[attr-defined]
        return content


def read_if_there(file: Folder) -> bytes | None:
    """The file's content; None if there is no such file. Raises StorageError."""
    try:
        return read_bytes(file)
    except FileNotFoundError:
        return None


def names_in(folder: Folder) -> list[str]:
    """What is in a folder, sorted; nothing if there is no folder. Raises StorageError."""
    with _asked(folder, "cannot be listed"):
        try:
            if isinstance(folder, Path):
                return sorted(path.name for path in folder.iterdir())
            _forget_listings(folder)
            # Not `iterdir`: if a bucket cannot be read, `iterdir` behaves as if the folder did not exist.
            files, path = folder.fs, folder.path  # type: ignore[attr-defined]
            return sorted(str(name).rstrip("/").rpartition("/")[2] for name in files.ls(path, detail=False))
        except FileNotFoundError:
            return []


def files_below(folder: Folder) -> list[str]:
    """The names of all files at any depth below a folder, relative to it, sorted. A bucket has no empty folders.

    Raises FileNotFoundError, and StorageError if storage does not answer.
    """
    with _asked(folder, "cannot be listed"):
        if isinstance(folder, Path):
            if not folder.is_dir():
                raise FileNotFoundError(f"there is no folder {folder}")
            return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        _forget_listings(folder)
        files, root = folder.fs, str(folder.path).rstrip("/")  # type: ignore[attr-defined]
        names = sorted(str(path).removeprefix(f"{root}/") for path in files.find(root))
        if not names:
            raise FileNotFoundError(f"there is no folder {folder}")
        return names


def make_folder(folder: Folder) -> None:
    """Makes a folder on a disk. A bucket has none, and its client would make a bucket that it cannot see.

    Raises StorageError.
    """
    if isinstance(folder, Path):
        with _asked(folder, "cannot be made", missing_too=True):
            folder.mkdir(parents=True, exist_ok=True)


def write_whole(file: Folder, data: bytes, *, first_stays: bool = False) -> None:
    """Writes the file. A reader, also after a crash, finds the old file or the new one. Raises StorageError.

    With `first_stays`, a file that is there stays as it is. Buckets, and disks without hard links, do not promise that.
    """
    with _asked(file, "cannot be written", missing_too=True):
        if not isinstance(file, Path):  # an object in a bucket appears whole
            file.write_bytes(data)
            return
        part = file.with_name(f".{file.name}.{secrets.token_hex(8)}.part")
        try:
            with part.open("wb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(opened.fileno())  # otherwise a machine that crashes can leave an empty file
            if not (first_stays and _linked(part, file)):
                part.replace(file)
            sync_folder(file.parent)
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise


def _linked(part: Path, file: Path) -> bool:
    """Gives the file its name, unless something has it already. False: this disk has no hard links."""
    try:
        with suppress(FileExistsError):
            os.link(part, file)
    except OSError:
        return False
    part.unlink()
    return True


def remove(file: OnDisk) -> None:
    """Removes the file, which may be gone already. Raises StorageError."""
    with _asked(file, "cannot be removed"), suppress(FileNotFoundError):
        if isinstance(file, Path):
            file.unlink()
        else:  # UPath's `unlink` first asks whether the file exists, and does nothing if the bucket does not answer
            file.fs.rm_file(file.path)  # type: ignore[attr-defined]


def remove_folder(folder: Folder) -> None:
    """Removes the folder with all that is in it, or the file; it may be gone already. Raises StorageError."""
    with _asked(folder, "cannot be removed"), suppress(FileNotFoundError):
        if not isinstance(folder, Path):
            _forget_listings(folder)
            files = folder.fs  # type: ignore[attr-defined]
            for path in files.find(folder.path):  # type: ignore[attr-defined]
                files.rm_file(path)  # one by one, so that a refusal is an error
        elif folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
        else:
            folder.unlink()


def modified_at(file: OnDisk) -> datetime:
    """When the file was last written. Raises FileNotFoundError, and StorageError if storage does not answer."""
    with _asked(file, "cannot be looked at"):
        _forget_listings(file)
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)


def sync_folder(folder: Path) -> None:
    """Writes the folder's list of files to the disk. Otherwise a machine that crashes can lose a whole file.

    Not every file system can do that for a folder; its files are on the disk anyway.
    """
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def storage_error(what: str, failed: BaseException) -> StorageError:
    """`what` names the file and says what could not be done with it."""
    number = failed.errno if isinstance(failed, OSError) else None
    reason = (
        failed.strerror if isinstance(failed, OSError) and failed.strerror else f"{failed}" or type(failed).__name__
    )
    if number in _FULL:
        remedy = "Make room there"
    elif number in _FORBIDDEN:
        remedy = "Let Airflow's processes read and write what is below [kafka_rebalance] runs_url"
    else:
        remedy = "Make sure that the storage below [kafka_rebalance] runs_url answers"
    return StorageError(f"{what} ({reason}). {remedy}, then clear this task.")


@contextmanager
def _asked(file: object, what: str, *, missing_too: bool = False) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as missing:
        if missing_too:
            raise storage_error(f"{file} {what}", missing) from missing
        raise
    except Exception as failed:
        if isinstance(file, Path) and not isinstance(failed, OSError):
            raise
        raise storage_error(f"{file} {what}", failed) from failed


def _forget_listings(file: object) -> None:
    """Others may have written since this process last listed the bucket."""
    for path in (
        file,
        getattr(file, "__wrapped__", None),
    ):  # an `ObjectStoragePath` reads through the path that it wraps
        files = getattr(path, "fs", None)
        if files is not None:
            files.invalidate_cache()
