"""Programs that the workers of a Spark standalone cluster find, each its own."""

from __future__ import annotations

from pathlib import Path


def write_program(folder: Path, name: str, command: str) -> None:
    """A program of a worker's own, such as the Python of its executors."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    (folder / name).chmod(0o755)


def workers_with(folder: Path, name: str, command: str) -> list[Path]:
    """The folders of programs of two workers, which both have this one."""
    workers = [folder / f"programs-{number}" for number in range(2)]
    for programs in workers:
        write_program(programs, name, command)
    return workers
