"""The switch that stops every write: the Airflow Variable `kafka_rebalance_freeze`, for all clusters or for some.

Every write reads it first. Two things stay allowed because they take load off a cluster: to put throttles back, and to
cancel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

from kafka_rebalance.errors import FrozenError, SettingsError

VARIABLE = "kafka_rebalance_freeze"


def check_not_frozen(stored: str | None, connection_id: str, exists: Callable[[str], bool]) -> None:
    """`stored` is the switch's text. Raises FrozenError while the cluster is frozen, SettingsError if mistyped."""
    frozen = frozen_clusters(stored)
    if frozen is True or (frozen and connection_id in frozen):
        which = "all clusters" if frozen is True else f"the cluster {connection_id}"
        raise FrozenError(
            f"The Variable {VARIABLE} freezes {which}, so this task does not go on. Copies under way do. You may still "
            "cancel and put throttles back. Unset the Variable under Admin, Variables, then clear this task."
        )
    check_frozen_exist(frozen, (connection_id,), exists)


def frozen_clusters(stored: str | None) -> bool | frozenset[str]:
    """Whether all clusters are frozen, or the connection ids of the frozen ones.

    Raises SettingsError unless the text is `true`, `false` or a list of texts.
    """
    if stored is None or not stored.strip():
        return False
    try:
        value = json.loads(stored)
    except (ValueError, RecursionError):
        value = stored
    if isinstance(value, bool):
        return value
    if isinstance(value, list) and all(isinstance(name, str) and name for name in value):
        return frozenset(value)
    raise _unusable(
        f"holds {stored[:100]!r}; it must be JSON: true (all clusters), false, or a list of connection ids, as in "
        '["kafka_eu"].'
    )


def check_frozen_exist(frozen: bool | frozenset[str], known: Collection[str], exists: Callable[[str], bool]) -> None:
    """Raises SettingsError for a mistyped id in the list: some cluster is to be frozen, and nobody knows which.

    `known` are ids of clusters; `exists` is asked for others: whether there is a connection of this id.
    """
    alike = {name.casefold() for name in known}  # Airflow finds a connection of the environment in any case
    for name in sorted(frozen) if isinstance(frozen, frozenset) else ():
        if name not in known and (name.strip().casefold() in alike or not exists(name)):
            raise _unusable(
                f"names {name[:100]!r}, but there is no Airflow connection of exactly this id, so it is not known "
                "which cluster is to be frozen."
            )


def _unusable(why: str) -> SettingsError:
    return SettingsError(
        f"The Variable {VARIABLE} {why} While this lasts, no run begins to write to any cluster. "
        "Correct it under Admin, Variables."
    )
