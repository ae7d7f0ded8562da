"""Files of a run's folder, and the digests that chain them."""

from __future__ import annotations

import json
import math
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.documents.json_files import check_format_version, read_json, write_json
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.digests import canonical_json, digest_of, digest_of_bytes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_one_value_has_one_text_that_reads_back(value: Any) -> None:
    assert json.loads(canonical_json(value)) == value
    if isinstance(value, dict):
        assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, {"a": [-math.inf]}])
def test_what_is_not_json_has_no_digest(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest_of(value)


def test_the_digest_is_sha256_of_the_canonical_text() -> None:
    assert digest_of({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_no_byte_can_wander_from_one_part_to_the_next() -> None:
    assert digest_of_bytes(b"ab", b"c") != digest_of_bytes(b"a", b"bc")
    assert digest_of_bytes(b"ab") != digest_of_bytes(b"ab", b"")


@given(st.dictionaries(st.text().filter(lambda key: key != "format_version"), JSON, max_size=4))
def test_a_file_reads_back_with_its_version_and_the_digest_that_was_returned(
    tmp_path_factory: pytest.TempPathFactory, content: Any
) -> None:
    folder = tmp_path_factory.mktemp("run")
    digest = write_json(folder, "x.json", content)
    document = read_json(folder, "x.json")
    assert document == {"format_version": 1, **content}
    assert digest_of(document) == digest


def test_the_digest_is_that_of_what_a_reader_gets_also_for_numbers_as_keys(tmp_path: Path) -> None:
    digest = write_json(tmp_path, "x.json", {"counts": {2: "two", 10: "ten"}})
    assert digest_of(read_json(tmp_path, "x.json")) == digest


def test_the_file_names_the_digest_of_the_file_it_came_from(tmp_path: Path) -> None:
    write_json(tmp_path, "x.json", {}, source_digest="abc")
    assert read_json(tmp_path, "x.json")["source_digest"] == "abc"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"x\.json is not in the run's folder"):
        read_json(tmp_path, "x.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe\xfa", "is not JSON"),
        (b'{"format_version": 1, "x": NaN}', "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b"null", "is not a JSON object"),
        (b"{}", "has format_version None"),
        (b'{"format_version": 2}', "has format_version 2, but this version reads 1"),
        (b'{"format_version": "1"}', "has format_version '1'"),
        (b'{"format_version": true}', "has format_version True"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: Any, words: str) -> None:
    (tmp_path / "x.json").write_bytes(text)
    with pytest.raises(ArtifactError) as refused:
        read_json(tmp_path, "x.json")
    assert words in str(refused.value)
    assert str(tmp_path / "x.json") in str(refused.value)


def test_a_file_that_is_there_but_cannot_be_read_is_not_called_missing(tmp_path: Path) -> None:
    (tmp_path / "x.json").mkdir()
    with pytest.raises(ArtifactError, match="cannot be read"):
        read_json(tmp_path, "x.json")


def test_only_the_own_format_version_passes() -> None:
    check_format_version(1, "x")
    with pytest.raises(ArtifactError, match="with the version that is deployed"):
        check_format_version(0, "x")


def test_a_files_name_is_on_the_disk_as_its_content_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a machine that goes down right behind it takes a lease with it, whose throttle is set already."""
    synced = []
    real = os.fsync

    def fsync(opened: Any) -> None:
        synced.append("folder" if stat.S_ISDIR(os.fstat(opened).st_mode) else "file")
        if synced[-1] == "folder":
            assert (tmp_path / "lease.json").exists()
        real(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    write_json(tmp_path, "lease.json", {})
    assert synced == ["file", "folder"]


def test_times_and_mappings_have_a_form_in_json_and_other_things_have_none(tmp_path: Path) -> None:
    at = datetime(2026, 5, 4, 2, tzinfo=UTC)
    write_json(tmp_path, "a.json", {"at": at, "given": MappingProxyType({"x": 1})})
    found = read_json(tmp_path, "a.json")
    assert (found["at"], found["given"]) == ("2026-05-04T02:00:00+00:00", {"x": 1})
    with pytest.raises(TypeError, match="set has no form in JSON"):
        write_json(tmp_path, "b.json", {"x": {1}})
