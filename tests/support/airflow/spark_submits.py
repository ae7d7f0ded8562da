"""What `kafka_rebalance` gives Spark once Airflow has filled in the templates; a test holds it against the Dag."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def rebalance_submit(folder: object, nonce: str, metrics: str, dag_run: Any) -> SimpleNamespace:
    """The task `plan`, as it is when its `pre_execute` is called."""
    return SimpleNamespace(
        py_files=None,  # the operator itself adds the installed package
        application_args=[
            *("--snapshot", f"{folder}/snapshot"),
            *("--out", str(folder)),
            *("--settings", f"{folder}/settings.json"),
            *("--metrics", metrics),
            *("--expect-nonce", nonce),
            *("--expect-run", f"{dag_run.dag_id}/{dag_run.run_id}"),
        ],
    )
