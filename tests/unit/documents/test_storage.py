"""Files on a disk and in a bucket: what is not there, and what cannot be read, are never the same answer."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, Self

import pytest
from upath import UPath

from kafka_rebalance.documents import storage
from kafka_rebalance.errors import StorageError


@pytest.fixture(params=["disk", "bucket"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return tmp_path / "runs" if request.param == "disk" else UPath(f"memory://{tmp_path.name}-runs")


def test_what_is_written_is_read_listed_and_removed(folder: Any) -> None:
    assert storage.names_in(folder) == []
    storage.make_folder(folder)
    storage.write_whole(folder / "b.json", b"2")
    storage.write_whole(folder / "a.json", b"1")
    storage.write_whole(folder / "a.json", b"3")
    assert storage.names_in(folder) == ["a.json", "b.json"]
    assert storage.read_bytes(folder / "a.json") == b"3"
    assert storage.is_there(folder / "a.json")
    storage.remove(folder / "a.json")
    storage.remove(folder / "a.json")
    assert storage.read_if_there(folder / "a.json") is None
    assert not storage.is_there(folder / "a.json")


def test_a_folder_is_listed_and_removed_with_all_that_is_below_it(folder: Any) -> None:
    storage.make_folder(folder / "1" / "snapshot")
    for name in ("a.json", "b.json"):
        storage.write_whole(folder / "1" / "snapshot" / name, b"1")
    assert [name.rpartition("/")[2] for name in sorted(storage.files_below(folder))] == ["a.json", "b.json"]
    storage.remove_folder(folder / "1")
    storage.remove_folder(folder / "1")
    storage.write_whole(folder / "d.json", b"1")
    assert storage.files_below(folder) == ["d.json"]
    storage.write_whole(folder / "c.json", b"1")
    storage.remove_folder(folder / "c.json")
    assert storage.read_if_there(folder / "c.json") is None


def test_the_file_that_came_first_stays(tmp_path: Path) -> None:
    for data in (b"1", b"2"):
        storage.write_whole(tmp_path / "a.json", data, first_stays=True)
    assert (tmp_path / "a.json").read_bytes() == b"1"
    assert storage.names_in(tmp_path) == ["a.json"]


def test_a_disk_without_hard_links_takes_the_file_that_came_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.link", Broken(OSError(errno.EPERM, "no links"))._fail)
    for data in (b"1", b"2"):
        storage.write_whole(tmp_path / "a.json", data, first_stays=True)
    assert (tmp_path / "a.json").read_bytes() == b"2"
    assert storage.names_in(tmp_path) == ["a.json"]


class Broken:
    """A bucket whose client fails in its own way."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    def __str__(self) -> str:
        return "bucket/a.json"

    @property
    def fs(self) -> Self:
        return self

    path = "bucket/a.json"

    def invalidate_cache(self) -> None:
        pass

    def _fail(self, *_: object, **__: object) -> Any:
        raise self._failure

    write_bytes = stat = mkdir = cat_file = rm_file = find = ls = _fail


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (OSError(errno.ENOSPC, "No space left"), r"\(No space left\)\. Make room there"),
        (OSError(errno.EACCES, "Permission denied"), r"\(Permission denied\)\. Let Airflow's processes read and write"),
        (OSError(errno.EIO, "Input/output error"), r"\(Input/output error\)\. Make sure that the storage below"),
        (RuntimeError("slow down"), r"\(slow down\)\. Make sure that the storage below"),
        (RuntimeError(), r"\(RuntimeError\)\. Make sure"),
    ],
)
def test_a_storage_that_fails_is_named_with_what_to_do(failure: Exception, words: str) -> None:
    file: Any = Broken(failure)
    with pytest.raises(StorageError, match=rf"^bucket/a\.json cannot be read {words}"):
        storage.read_if_there(file)
    with pytest.raises(StorageError, match=r"^bucket/a\.json cannot be looked at"):
        storage.is_there(file)
    with pytest.raises(StorageError, match=r"^bucket/a\.json cannot be removed"):
        storage.remove(file)


def test_a_place_that_is_gone_while_something_is_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be written"):
        storage.write_whole(tmp_path / "gone" / "a.json", b"1")
    assert not list(tmp_path.iterdir())


def test_a_mistake_of_our_own_is_not_taken_for_one_of_the_storage(tmp_path: Path) -> None:
    wrong: Any = "text"
    with pytest.raises(TypeError):
        storage.write_whole(tmp_path / "a.json", wrong)
    assert not list(tmp_path.iterdir()), "nothing is left of the half-written file"


def test_a_storage_without_folders_needs_none() -> None:
    storage.make_folder(object())  # type: ignore[arg-type]
