"""TCP connections through a network whose every byte comes late."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Self

Address = tuple[str, int]
CHUNK = 65_536


class SlowNetwork:
    """Carries connections; what one side sends reaches the other `delay_seconds` later. It limits no rate."""

    def __init__(self, delay_seconds: float) -> None:
        self._delay = delay_seconds
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def carry(self, near: Address, far: Address) -> str:
        """Listens at `near` (port 0: a free one) for connections to `far`; returns `host:port` of `near`."""

        async def listen() -> asyncio.Server:
            return await asyncio.start_server(lambda reader, writer: self._carry(reader, writer, far), *near)

        server = asyncio.run_coroutine_threadsafe(listen(), self._loop).result()
        host, port = server.sockets[0].getsockname()
        return f"{host}:{port}"

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, far: Address) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*far)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._late(reader, far_writer), self._late(far_reader, writer))

    async def _late(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                self._loop.call_later(self._delay, writer.write, chunk)
        self._loop.call_later(self._delay, writer.close)
