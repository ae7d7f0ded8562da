"""What a local ZooKeeper has written, from its own transaction log: every write in its order, none left out.

A watch or a poll sees only some of the states between two looks. Source of the format: FileTxnLog and the jute records
of ZooKeeper 3.5 to 3.8, which Kafka 2.0.1 to 3.9.2 run with here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MAGIC = b"ZKLG"
_CREATE, _DELETE, _SET, _MULTI, _ERROR = (1, 15, 19, 21), (2, 20), 5, 14, -1
_HEADER = struct.Struct(">qiqqi")  # session, cxid, zxid, time, type


class Write(NamedTuple):
    """One znode written: `call` is create, set or delete, `data` what it holds from then on."""

    zxid: int
    session: int
    call: str
    path: str
    data: bytes


def read_writes(zookeeper_folder: Path) -> tuple[Write, ...]:
    """Every write so far of the ZooKeeper whose dataDir this is, oldest first; what ends with a session excepted."""
    logs = sorted(zookeeper_folder.glob("version-2/log.*"), key=lambda log: int(log.suffix[1:], 16))
    return tuple(write for log in logs for write in _writes(log.read_bytes()))


def _writes(log: bytes) -> Iterator[Write]:
    assert log[:4] == _MAGIC, "not a transaction log of ZooKeeper"
    at = 16  # magic, version, dbid
    while at + 12 <= len(log):
        (length,) = struct.unpack_from(">i", log, at + 8)  # behind the checksum
        if length <= 0 or at + 12 + length >= len(log) or log[at + 12 + length] != 0x42:
            return  # zeros, allocated in advance; or an entry that is being written
        entry = log[at + 12 : at + 12 + length]
        session, _, zxid, _, kind = _HEADER.unpack_from(entry)
        for call, path, data in _operations(kind, entry[_HEADER.size :]):
            yield Write(zxid, session, call, path, data)
        at += 12 + length + 1


def _operations(kind: int, record: bytes) -> Iterator[tuple[str, str, bytes]]:
    if kind in _CREATE or kind == _SET:
        path, at = _buffer(record, 0)
        data, _ = _buffer(record, at)
        yield "set" if kind == _SET else "create", path.decode(), data
    elif kind in _DELETE:
        yield "delete", _buffer(record, 0)[0].decode(), b""
    elif kind == _MULTI:
        (count,) = struct.unpack_from(">i", record)
        at, parts = 4, []
        for _ in range(count):
            (inner,) = struct.unpack_from(">i", record, at)
            data, at = _buffer(record, at + 4)
            parts.append((inner, data))
        if all(inner != _ERROR for inner, _ in parts):  # else nothing of the transaction was done
            for inner, data in parts:
                yield from _operations(inner, data)


def _buffer(record: bytes, at: int) -> tuple[bytes, int]:
    """(a text or buffer with its length before it, where the next field begins)."""
    (length,) = struct.unpack_from(">i", record, at)
    end = at + 4 + max(length, 0)
    return record[at + 4 : end], end
