"""The switch that stops every write: the Airflow Variable `kafka_rebalance_freeze`, for all clusters or for some.

Every write reads it first. Two things stay allowed because they take load off a cluster: to put throttles back, and to
cancel.
"""

from __future__ import annotations

import json

from kafka_rebalance.errors import FrozenError, SettingsError

VARIABLE = "kafka_rebalance_freeze"


def check_not_frozen(stored: str | None, connection_id: str) -> None:
    """`stored` is the switch's text. Raises FrozenError while the cluster is frozen, SettingsError unless the text is
    `true`, `false` or a list of connection ids.
    """
    frozen = frozen_clusters(stored)
    if frozen is True or (frozen and connection_id in frozen):
        which = "all clusters" if frozen is True else f"the cluster {connection_id}"
        raise FrozenError(
            f"The Variable {VARIABLE} freezes {which}: nothing was written. Copies under way go on. You may still "
            "cancel and put throttles back. Unset the Variable under Admin, Variables, then clear this task."
        )


def frozen_clusters(stored: str | None) -> bool | frozenset[str]:
    """Whether all clusters are frozen, or the connection ids of the frozen ones."""
    if stored is None or not stored.strip():
        return False
    try:
        value = json.loads(stored)
    except ValueError:
        value = stored
    if isinstance(value, bool):
        return value
    if isinstance(value, list) and all(isinstance(name, str) and name for name in value):
        return frozenset(value)
    raise SettingsError(
        f"The Variable {VARIABLE} holds {stored[:100]!r}; it must be JSON: true (all clusters), false, or a list of "
        'connection ids, as in ["kafka_eu"]. Nothing was written. Correct it under Admin, Variables.'
    )
