"""What the planner's command and the Spark job share: arguments, the files they name, and lines of progress."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kafka_rebalance.documents.job_environment import storage_options
from kafka_rebalance.documents.json_files import check_format_version
from kafka_rebalance.documents.storage import FolderOfRuns, read_bytes
from kafka_rebalance.errors import ArtifactError, SettingsError, StorageError
from kafka_rebalance.model.settings import Settings


def say(line: str) -> None:
    """Prints a line of progress to stderr at once."""
    print(line, file=sys.stderr, flush=True)


def argument_parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="Plans a rebalance from the tables of a snapshot.")
    parser.add_argument("--snapshot", required=True, help="folder or URL with brokers.parquet and partitions.parquet")
    parser.add_argument("--out", required=True, help="folder or URL for proposals.json and the tables of the plan")
    parser.add_argument("--settings", help="JSON file with settings; the default settings without it")
    parser.add_argument("--history", help="history/part-0.parquet of a Spark job, made of the ledger's samples")
    return parser


def read_file(path: str) -> bytes:
    """The content of a file at a path or URL. Raises ArtifactError."""
    folder, _, name = path.rpartition("/")
    try:
        return read_bytes(folder_at(folder or ("/" if path.startswith("/") else ".")) / name)
    except (FileNotFoundError, StorageError) as wrong:
        raise ArtifactError(f"{path} cannot be read ({wrong}). Nothing was planned.") from wrong


def read_settings(path: str | None) -> Settings:
    """The settings in a JSON file at a path or URL. Raises SettingsError or ArtifactError."""
    if path is None:
        return Settings()
    try:
        given = json.loads(read_file(path))
    except (ArtifactError, ValueError, RecursionError) as wrong:
        raise SettingsError(f"The settings file {path} cannot be read ({wrong}). Nothing was planned.") from wrong
    if not isinstance(given, dict):
        raise SettingsError(f"The settings file {path} is not a JSON object. Nothing was planned.")
    if "format_version" in given:
        check_format_version(given["format_version"], path)
        return Settings.from_document(given)
    return Settings.from_mapping(given)


def folder_at(place: str) -> FolderOfRuns:
    """A local path, a `file://` URL, or any other URL that universal-pathlib can open here.

    Its client takes the options in the environment (`job_environment`), or else finds credentials itself. Raises
    ArtifactError.
    """
    url = urlsplit(place)
    if "://" not in place:
        return Path(place)
    if url.scheme == "file":
        return Path(unquote(url.path))
    try:
        from upath import UPath

        opened = UPath(place, **storage_options(os.environ))
        _ = opened.fs  # so that a missing storage library fails here
        folder: FolderOfRuns = opened
        return folder
    except (ImportError, ValueError) as wrong:
        raise ArtifactError(
            f"{place} cannot be opened ({wrong}). Nothing was planned. Install universal-pathlib and the library for "
            f"{url.scheme} (s3fs for s3) where the driver runs, or give a local folder."
        ) from wrong
