"""scripts/make-env.sh, which makes the secrets of docker-compose.yaml."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from support.compose import ROOT, TEXT

# What is on PATH here: POSIX's tools and base64, no Python and no openssl.
TOOLS = ("base64", "dd", "dirname", "od", "tr")


def make_env(checkout: Path, shell: str = "sh") -> subprocess.CompletedProcess[str]:
    tools = checkout / "tools"
    if not tools.exists():
        tools.mkdir()
        for tool in TOOLS:
            (tools / tool).symlink_to(shutil.which(tool))
        (checkout / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "make-env.sh", checkout / "scripts")
    command = [shutil.which(shell), str(checkout / "scripts" / "make-env.sh")]
    return subprocess.run(command, env={"PATH": str(tools)}, capture_output=True, text=True, timeout=60, check=False)


def read_env(checkout: Path) -> dict[str, str]:
    return dict(re.findall(r"^([A-Z_]+)=(.*)$", (checkout / ".env").read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_alone_makes_every_secret_that_the_compose_file_asks_for(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    ended = make_env(tmp_path, shell)
    assert (ended.returncode, ended.stderr) == (0, "")
    env = read_env(tmp_path)
    assert set(env) == set(re.findall(r"\$\{([A-Z_]+):", TEXT))
    Fernet(env.pop("AIRFLOW_FERNET_KEY"))
    # No character that a URL, JSON or the .env file itself would take for its own.
    assert [name for name, value in env.items() if not re.fullmatch(r"[0-9a-f]{16,}", value)] == []
    assert len(set(env.values())) == len(env)
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert not any(value in ended.stdout for value in env.values())


def test_an_env_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("POSTGRES_PASSWORD=mine\n")
    ended = make_env(tmp_path)
    assert ended.returncode == 1
    assert "Nothing was changed" in ended.stderr
    assert (tmp_path / ".env").read_text() == "POSTGRES_PASSWORD=mine\n"


def test_two_machines_have_different_secrets(tmp_path: Path) -> None:
    machines = [tmp_path / "one", tmp_path / "two"]
    for machine in machines:
        machine.mkdir()
        make_env(machine)
    one, two = map(read_env, machines)
    assert [name for name in one if one[name] == two[name]] == []
