"""What can be wrong with a batch that a follower looks at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

REQUEST = "/admin/reassign_partitions"


class FindingKind(StrEnum):
    """The value is the short form, as the history of the run has it."""

    UNHEARD_REQUEST = "the controller ignores the request"
    DEAF_CONTROLLER = "partitions taken out of the request in mid-move"
    ELECTION_STORM = "brokers resign as controller one after the other"
    NO_CONTROLLER = "there is no controller"
    ZOMBIE_ENTRY = "the request lists moves that have ended"
    FOREIGN_REASSIGNMENT = "the request asks for partitions of somebody else"
    LEADERS_MOVED = "leaders changed without need"
    TOPIC_DELETION = "a topic that moves is queued for deletion"
    THROTTLE_LIFTED = "the throttle is not known to be in force"
    LOG_DIR_FAILED = "a log dir has failed"


@dataclass(frozen=True, slots=True)
class BatchFinding:
    """What is wrong, and what to do. `stops`: a person has to act before the batch goes on."""

    kind: FindingKind
    text: str
    stops: bool = False
