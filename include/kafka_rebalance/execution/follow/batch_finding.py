"""What may be wrong with a batch that is followed: the kinds of findings, and one of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

REQUEST = "/admin/reassign_partitions"


class FindingKind(StrEnum):
    UNHEARD_REQUEST = "unheard_request"
    DEAF_CONTROLLER = "deaf_controller"
    ELECTION_STORM = "election_storm"
    NO_CONTROLLER = "no_controller"
    ZOMBIE_ENTRY = "zombie_entry"
    FOREIGN_REASSIGNMENT = "foreign_reassignment"
    LEADERS_MOVED = "leaders_moved"
    TOPIC_DELETION = "topic_deletion"
    THROTTLE_LIFTED = "throttle_lifted"
    LOG_DIR_FAILED = "log_dir_failed"


@dataclass(frozen=True, slots=True)
class BatchFinding:
    """What is wrong with what, and what to do. `stops`: watching on helps nobody, a person has to act."""

    kind: FindingKind
    text: str
    stops: bool = False
