"""Tests of this folder use an Airflow of their own: a fresh SQLite database in a temporary home."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_home import HOME, RUNS, USERS  # first: it sets Airflow's environment


@pytest.fixture(scope="session", autouse=True)
def airflow_home() -> Iterator[Path]:
    """The home with its database, ready to use. Users log in with their name as password."""
    RUNS.mkdir()
    (HOME / "passwords.json").write_text(json.dumps({user: user for user in USERS}))
    logging.getLogger("alembic").setLevel(logging.WARNING)
    from airflow.utils.db import initdb

    initdb()
    yield HOME
    from airflow import settings

    settings.dispose_orm()
