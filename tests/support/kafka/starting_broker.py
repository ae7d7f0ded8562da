"""A broker that tells clients which brokers and which controller it knows, and nothing else."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

_METADATA, _API_VERSIONS = 3, 18
_UNSUPPORTED_VERSION = 35
_NEWEST = {_METADATA: 4, _API_VERSIONS: 2}  # these have no tagged fields, so the header of an answer is one number
CLUSTER_ID = "starting-cluster"

# (the Metadata requests that it has answered before) -> what it knows: whether itself is a broker, and the controller
Knows = Callable[[int], tuple[bool, int]]


@contextmanager
def starting_broker(knows: Knows) -> Iterator[str]:
    """`host:port` of broker 1."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        asked: list[int] = []

        def answer(key: int, version: int) -> bytes:
            if key == _API_VERSIONS:
                return _versions(version)
            is_broker, controller = knows(len(asked))
            asked.append(key)
            node = MetadataResponse.MetadataResponseBroker(
                node_id=1, host="127.0.0.1", port=listening.getsockname()[1], rack=None
            )
            known = MetadataResponse(
                throttle_time_ms=0, brokers=[node] * is_broker, cluster_id=CLUSTER_ID, controller_id=controller,
                topics=[],
            )  # fmt: skip
            return bytes(known.encode(version=version))

        def accept() -> None:
            with suppress(OSError):  # closed at the end
                while True:
                    threading.Thread(target=_serve, args=(listening.accept()[0], answer), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        accepting.join()


def _versions(asked: int) -> bytes:
    """Of a newer version than ours: refused, in version 0."""
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=newest)
        for key, newest in _NEWEST.items()
    ]
    is_newer = asked > _NEWEST[_API_VERSIONS]
    versions = ApiVersionsResponse(
        error_code=_UNSUPPORTED_VERSION if is_newer else 0, api_keys=keys, throttle_time_ms=0
    )
    return bytes(versions.encode(version=0 if is_newer else asked))


def _serve(client: socket.socket, answer: Callable[[int, int], bytes]) -> None:
    with client, client.makefile("rwb") as stream, suppress(OSError):
        while head := stream.read(4):
            request = stream.read(struct.unpack(">i", head)[0])
            key, version, number = struct.unpack_from(">hhi", request)
            content = answer(key, version)
            stream.write(struct.pack(">ii", 4 + len(content), number) + content)
            stream.flush()
