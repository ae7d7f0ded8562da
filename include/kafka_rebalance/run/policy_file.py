"""The policy file of a cluster: `policies_folder / <connection id>.yaml`, reviewed like code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from kafka_rebalance.errors import PolicyError
from kafka_rebalance.model.policy import Policy


def connections(folder: Path) -> tuple[str, ...]:
    """The ids of the connections that have a policy file."""
    return tuple(sorted(path.stem for path in folder.glob("*.yaml") if not path.name.startswith(".")))


def read_policy(folder: Path, connection_id: str) -> Policy | None:
    """The cluster's policy; None if there is no file: the cluster is then read-only.

    Raises PolicyError for a file that cannot be used.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]+", connection_id) or connection_id.startswith("."):
        raise PolicyError(
            f"The connection id {connection_id!r} cannot name a policy file. Use letters, digits, '.', '_' and '-'."
        )
    path = folder / f"{connection_id}.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as failed:
        raise PolicyError(
            f"The policy {path} cannot be read ({failed}). Correct its permissions or its encoding."
        ) from failed
    try:
        given = yaml.load(text, _Loader)
    # PyYAML passes on the errors that `int`, `date` and the like raise for a scalar, and fails on deep nesting.
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as bad:
        raise PolicyError(
            f"The policy {path} is not YAML that can be used ({type(bad).__name__}: {bad}). Correct the file."
        ) from bad
    return Policy.from_mapping(given, f"The policy {path.name}")


class _Loader(yaml.SafeLoader):
    """YAML as the reviewers of a policy read it: no key twice, no anchors. A SafeLoader makes only plain values."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.YAMLError(f"a policy may not have anchors and aliases (& and *){event.start_mark}")
        return super().compose_node(parent, index)  # type: ignore[no-untyped-call]

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise yaml.YAMLError(f"{', '.join(twice)} appears more than once{node.start_mark}")
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: Any) -> int:
        value = int(super().construct_yaml_int(node))  # type: ignore[no-untyped-call]
        if abs(value) >= 2**63:
            raise yaml.YAMLError(f"an integer is beyond 64 bits{node.start_mark}")
        return value


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
