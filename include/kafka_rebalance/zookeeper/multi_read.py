"""Many znodes in one request: ZooKeeper's multi-read (ZOOKEEPER-3402, since 3.6), which kazoo does not have.

A request costs the server and us many times what a znode in it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, KazooException, NoNodeError
from kazoo.protocol.serialization import GetData, MultiHeader, int_struct, multiheader_struct, read_buffer, stat_struct
from kazoo.protocol.states import ZnodeStat

PER_REQUEST = 100  # so few that nobody else waits long behind one of them
AT_ONCE = 20  # requests in flight
ERROR = -1  # the type of an answer that is an error

Znode = tuple[bytes | None, ZnodeStat]


def multi_read(client: KazooClient, paths: Sequence[str], seconds: float) -> dict[str, Znode | None]:
    """Content and stat by path; None if the znode does not exist. Waits so many seconds for each answer.

    Raises kazoo's errors: KazooException, ConnectionClosedError, KazooTimeoutError. A server before 3.6 answers with
    UnimplementedError and closes the connection.
    """
    found: dict[str, Znode | None] = {}
    parts = [paths[start : start + PER_REQUEST] for start in range(0, len(paths), PER_REQUEST)]
    for start in range(0, len(parts), AT_ONCE):
        asked = [(part, client.handler.async_result()) for part in parts[start : start + AT_ONCE]]
        for part, answer in asked:
            client._call(_MultiRead([client.chroot + path for path in part]), answer)
        for part, answer in asked:
            for path, one in zip(part, answer.get(timeout=seconds), strict=True):
                if isinstance(one, KazooException):
                    raise one
                found[path] = one
    return found


@dataclass(frozen=True)
class _MultiRead:
    """`MultiOperationRecord` of `ZooDefs.OpCode.multiRead`, with nothing but `getData`; as kazoo's `Transaction`."""

    paths: Sequence[str]

    type: ClassVar = 22

    def serialize(self) -> bytes:
        header = multiheader_struct.pack(GetData.type, False, -1)
        reads = (header + GetData(path, None).serialize() for path in self.paths)
        return b"".join(reads) + multiheader_struct.pack(-1, True, -1)

    @staticmethod
    def deserialize(answer: bytes, offset: int) -> list[Znode | KazooException | None]:
        found: list[Znode | KazooException | None] = []
        header, offset = MultiHeader.deserialize(answer, offset)
        while not header.done:
            if header.type == ERROR:
                error = EXCEPTIONS[int_struct.unpack_from(answer, offset)[0]]
                found.append(None if error is NoNodeError else error())
                offset += int_struct.size
            else:
                content, offset = read_buffer(answer, offset)
                found.append((content, ZnodeStat._make(stat_struct.unpack_from(answer, offset))))
                offset += stat_struct.size
            header, offset = MultiHeader.deserialize(answer, offset)
        return found
