"""`make audit` against a service that answers as OSV does, and `make sbom`.

An audit passes only where the service knows of vulnerabilities, and has none of ours.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
Serve = Callable[[set[str]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a service that knows a vulnerability of each of these; returns its address."""
    servers: list[HTTPServer] = []

    def start(vulnerable: set[str]) -> str:
        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked = query["package"]
                event = {"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}
                found = {
                    "id": "PYSEC-2000-1",
                    "summary": "known",
                    "details": "known",
                    "affected": [{"package": asked, "ranges": [event]}],
                }
                body = json.dumps(
                    {"vulns": [found]} if f"{asked['name']}=={query['version']}" in vulnerable else {}
                ).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        servers.append(HTTPServer(("127.0.0.1", 0), Answer))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}/v1/query"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def audit(url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/audit.py"), "--osv-url", url]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def pin_of(package: str) -> str:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return next(line.split()[0] for line in lines if line.startswith(f"{package}=="))


KNOWN = "jinja2==2.4.1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("vulnerable", "passes", "words"),
    [
        ({KNOWN}, True, "No known vulnerabilities found"),
        ({KNOWN, pin_of("kazoo")}, False, "(?s)kazoo.*make update"),
        (set(), False, "knows no vulnerability of jinja2.*Nothing was audited"),
        (None, False, "does not answer.*Nothing was audited"),
    ],
    ids=["nothing of ours", "one of ours", "a mirror without advisories", "no service"],
)
def test_an_audit_passes_where_the_service_knows_and_finds_nothing(
    serve: Serve, vulnerable: set[str] | None, passes: bool, words: str
) -> None:
    done = audit("http://127.0.0.1:9/v1/query" if vulnerable is None else serve(vulnerable))
    assert (done.returncode == 0) is passes
    assert re.search(words, done.stdout + done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_bill_of_materials_has_every_pin_with_its_hashes(tmp_path: Path) -> None:
    file = tmp_path / "new" / "sbom.json"
    command = ["make", "--old-file=setup", "sbom", f"SBOM={file}", f"BIN={Path(sys.executable).parent}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["name"] == "kafka-rebalance"
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", (ROOT / "requirements.txt").read_text(), flags=re.MULTILINE)
    assert sorted((one["name"], one["version"]) for one in document["components"]) == sorted(pins)
    assert all(one["externalReferences"][0]["hashes"] for one in document["components"])
