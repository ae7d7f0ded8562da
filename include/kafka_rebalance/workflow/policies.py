"""The policy file of a cluster: `policies_folder / <connection id>.yaml`, reviewed like code."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from airflow.sdk.configuration import conf

import kafka_rebalance
from kafka_rebalance.errors import PolicyError
from kafka_rebalance.model.policy import Policy


def policies_folder() -> Path:
    """`[kafka_rebalance] policies_folder`, by default the folder `policies` beside the package."""
    configured = conf.get("kafka_rebalance", "policies_folder", fallback="")
    return Path(configured) if configured else Path(kafka_rebalance.__file__).parents[1] / "policies"


def read_policy(connection_id: str) -> Policy | None:
    """The cluster's policy; None where there is no file, which makes the cluster read-only.

    A file that is there and cannot be used is an error, never "no policy".
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]+", connection_id) or connection_id.startswith("."):
        raise PolicyError(
            f"The connection id {connection_id!r} cannot name a policy file. Nothing was read or written. "
            "Use letters, digits, '.', '_' and '-'."
        )
    path = policies_folder() / f"{connection_id}.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as failed:
        raise PolicyError(
            f"The policy {path} cannot be read ({failed}). Nothing was written to the cluster."
        ) from failed
    try:
        return Policy.from_mapping(yaml.safe_load(text), f"The policy {path.name}")
    except yaml.YAMLError as bad:
        raise PolicyError(
            f"The policy {path} is not YAML ({bad}). Nothing was written to the cluster. Correct the file."
        ) from bad
