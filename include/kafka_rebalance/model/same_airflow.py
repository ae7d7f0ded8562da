"""The Airflow that owns a lock or a lease: `address (mark)`, as in `https://airflow.example.org (9f3a1c2e)`.

Only the mark tells one Airflow from another. The address is for people: it is a setting, and somebody may change it
while a run holds a cluster.
"""

from __future__ import annotations

import re

_MARKED = re.compile(r".*\(([^()]+)\)", re.DOTALL)


def marked(address: str, mark: str) -> str:
    return f"{address or 'airflow'} ({mark})"


def is_same_airflow(one: str, other: str) -> bool:
    """Whether both names are of one Airflow. Names without a mark, of older versions, must be equal."""
    found = [match[1] if (match := _MARKED.fullmatch(name)) else None for name in (one, other)]
    return one == other if None in found else found[0] == found[1]


def is_same_run(run: str, owner: str, other_run: str, other_owner: str) -> bool:
    """Whether these are one run of one Airflow. Two Airflows can have runs with the same name."""
    return run == other_run and is_same_airflow(owner, other_owner)
