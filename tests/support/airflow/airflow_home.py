"""A temporary Airflow home for tests: importing this module sets the environment, so import it before Airflow.

Airflow reads its configuration once, at its first import. Tests that start Airflow's own processes begin with
`ENVIRONMENT_BEFORE`, so that nothing of this home reaches them.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
USERS = {"admin": "admin", "olive": "op", "uma": "user", "vera": "viewer"}  # Simple auth manager: user and role

ENVIRONMENT_BEFORE = dict(os.environ)
HOME = Path(tempfile.mkdtemp(prefix="kafka-rebalance-airflow-"))
RUNS = HOME / "runs"
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

if "airflow" in sys.modules:
    raise RuntimeError(
        "Airflow was imported before its test home was set. Import airflow_home first in that folder's conftest.py."
    )

os.environ.update(
    AIRFLOW_HOME=str(HOME),
    AIRFLOW__CORE__DAGS_FOLDER=str(REPOSITORY / "dags"),
    AIRFLOW__CORE__PLUGINS_FOLDER=str(REPOSITORY / "plugins"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__UNIT_TEST_MODE="False",
    AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS=",".join(f"{user}:{role}" for user, role in USERS.items()),
    AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE=str(HOME / "passwords.json"),
    AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS="False",
    AIRFLOW__API__SECRET_KEY=secrets.token_hex(32),
    AIRFLOW__API_AUTH__JWT_SECRET=secrets.token_hex(32),
    AIRFLOW__KAFKA_REBALANCE__RUNS_URL=str(RUNS),
)
