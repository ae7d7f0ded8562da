"""A real HTTP server in this process that answers range queries in the form that Prometheus documents."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from kafka_rebalance.model.connection import MetricsServer

HOUR = 3600
Rate = Callable[[int], str | None]  # of the hour that ends at this second since 1970; None: no point


class Asked(NamedTuple):
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


Answer = Callable[[BaseHTTPRequestHandler, Asked], None]


@contextmanager
def answering(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[Asked]]]:
    """(its URL, what it was asked so far) of a server that is there as long as the block."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            asked.append(Asked(url.path, dict(parse_qsl(url.query)), dict(self.headers)))
            answer(self, asked[-1])

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def body(content: object, status: int = 200, **headers: str) -> Answer:
    """Always this content: bytes, or what is sent as JSON."""

    def answer(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        send(handler, content, status, **headers)

    return answer


def send(handler: BaseHTTPRequestHandler, content: object, status: int = 200, **headers: str) -> None:
    sent = content if isinstance(content, bytes) else json.dumps(content).encode()
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(sent)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(sent)


def series(*found: tuple[Mapping[str, str], Rate]) -> Answer:
    """These series: their labels, and the value of each hour."""

    def answer(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        begin, end, step = (int(asked.query[name]) for name in ("start", "end", "step"))
        given = [
            {"metric": labels, "values": [[at, rate(at)] for at in range(begin, end + 1, step) if rate(at) is not None]}
            for labels, rate in found
        ]
        send(handler, success([one for one in given if one["values"]]))

    return answer


def success(result: object, **more: object) -> dict[str, object]:
    return {"status": "success", "data": {"resultType": "matrix", "result": result}, **more}


def metrics_server(url: str, **more: str) -> MetricsServer:
    return MetricsServer(url, "sum by (topic) (rate(bytes_in_total[1h]))", **more)
