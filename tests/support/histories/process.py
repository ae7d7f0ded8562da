"""One call of a task, and what goes wrong meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


class Killed(BaseException):
    """kill -9: nothing more of this process happens."""


@dataclass
class Process:
    """One call of a task. `mishaps` by the number of the call to the cluster, writes alone counted by negative numbers:
    killed|lost, before|after it takes effect. `meanwhile`: what others do just before that call. `once_announced`: what
    they do while it stands still between the announcement of a request and its last look at the clock.
    """

    run: str
    mishaps: dict[int, str] = field(default_factory=dict)
    meanwhile: dict[int, list[Callable[[], None]]] = field(default_factory=dict)
    once_announced: list[Callable[[], None]] = field(default_factory=list)
    kind: str = ""  # of task
    calls: int = 0
    tried: int = 0  # writes
    dead: bool = False
    written: list[tuple[str, str]] = field(default_factory=list)
    registered: set[int] = field(default_factory=set)  # brokers that were there at any time since it began
    strangers: int = 0  # how often strangers had written when it began
    late: bool = False  # approvals had expired when it began
    policy_versions: int = 0  # how often the policy had changed when it began
    window_was_closed: bool = False  # when it began
    window_changes: int = 0  # how often the window had opened or closed when it began
    papers_of: str | None = None  # the run whose XComs and files it was given, where that is another one
