"""Requests that were announced: how long each may yet come, and what is taken back of those that came.

A worker announces a request under the fence, and sends it within `SEND_SECONDS` or not at all. To raise the fence stops
whoever has not announced yet. Whoever raises it to stop something then waits until nothing announced can come any more.
All ages are by the clock of the cluster, which dates the announcement too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

SEND_SECONDS = 5.0  # from the moment before the announcement until the request is out; later it is not sent
# A request that was sent in time is carried out or refused by then: brokers and controllers give it up after 30 s.
COME_SECONDS = 40.0
# Even a worker that stood still between its last look at the clock and the network asks for nothing after this time:
# brokers close an idle connection after connections.max.idle.ms, which is 10 minutes by default.
LATE_SECONDS = 900.0

Name = TypeVar("Name")
Target = TypeVar("Target")


def may_still_come(age_seconds: float) -> bool:
    """Whether a request that was announced so long ago may be on its way. Its worker has noted no end of it."""
    return age_seconds <= COME_SECONDS


def is_closed(age_seconds: float) -> bool:
    """Whether nobody need look for it any more."""
    return age_seconds > LATE_SECONDS


def came(
    announced: Mapping[Name, Target],
    now: Mapping[Name, Target],
    *,
    before: Mapping[Name, Target] | None = None,
    again: Collection[Name] = (),
) -> frozenset[Name]:
    """What of this announcement is under way now and has to be taken back.

    `now`: where everything under way goes. `before`: the same when the fence was raised; what was under way then had
    come earlier, and whoever raised the fence decides on it. `again`: announced once more since, so it is not of this
    announcement.
    """
    known = before or {}
    return frozenset(
        name for name, target in announced.items() if now.get(name) == target != known.get(name) and name not in again
    )
