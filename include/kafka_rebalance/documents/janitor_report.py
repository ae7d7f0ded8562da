"""The janitor's report on one cluster, `runs_url / janitor / <connection>.json`: what it saw, did and still finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_rebalance.documents.json_files import JANITOR, JsonFile, Time
from kafka_rebalance.documents.storage import Folder, file_name, make_folder


@dataclass(frozen=True, slots=True)
class Sighting:
    """The signs of a run's follower at a look. Times are of the janitor's clock."""

    signs: tuple[str, ...]
    since: Time  # when the newest sign came
    looked_at: Time

    @property
    def silent_seconds(self) -> float:
        return (self.looked_at - self.since).total_seconds()


@dataclass(frozen=True, slots=True)
class UnheldFinding:
    """Something that should not be there. `id` holds its content too: after a change it is another finding."""

    id: str  # the value for the parameter `clean` of the janitor's Dag
    text: str
    remedy: str
    can_be_cleaned: bool
    entity: str = ""  # of a config
    key: str = ""  # of a throttle


@dataclass(frozen=True, slots=True)
class OpenThrottle:
    """The throttle that a run holds."""

    taken_at: Time | None
    bytes_per_second: int


@dataclass(frozen=True, slots=True)
class RunProgress:
    """What is left of the run that holds the throttle.

    `since` is the janitor's time at which the copied bytes, or the partitions in place, were first seen as they are.
    """

    run: str
    partitions_left: int
    bytes_left: int
    since: Time


@dataclass(frozen=True, slots=True)
class JanitorReport:
    connection_id: str = ""
    cluster_id: str | None = None
    looked_at: Time | None = None
    lines: tuple[str, ...] = ()
    lock: str | None = None  # who holds it
    locked_since: Time | None = None  # when the janitor first saw this holder
    throttle: OpenThrottle | None = None
    progress: RunProgress | None = None
    followed: Sighting | None = None
    alerts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    findings: tuple[UnheldFinding, ...] = ()  # of the last sweep
    cleaned: tuple[str, ...] = ()
    swept_at: Time | None = None
    raised: Mapping[str, Time] = field(default_factory=dict)  # by alert, when it last failed the task


def read_janitor_report(runs_root: Folder, connection_id: str) -> JanitorReport | None:
    """The janitor's last report; None if there is none. Raises ArtifactError."""
    return _file(connection_id).read_if_there(runs_root / JANITOR)


def write_janitor_report(runs_root: Folder, connection_id: str, report: JanitorReport) -> None:
    """Raises StorageError."""
    make_folder(runs_root / JANITOR)
    _file(connection_id).write(runs_root / JANITOR, report)


def _file(connection_id: str) -> JsonFile[JanitorReport]:
    return JsonFile(f"{file_name(connection_id)}.json", JanitorReport, "The janitor's next look writes it anew.")
