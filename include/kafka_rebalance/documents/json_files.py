"""Files of a run's folder: their names, their format version, and the digests that chain them.

A folder is anything with pathlib's `/`, `read_bytes` and `write_bytes`: a `Path`, or an `ObjectStoragePath` on a
bucket. Every JSON file has a `format_version`. A file that comes from another file also has that file's digest.

`format_version` is the major version; readers refuse another one. A later version may add keys, perhaps with a
`format_minor` that says so. Readers pass over keys that they do not know.

A file's type is a frozen dataclass in a module of this room. Its fields are the file's keys. A field that older
versions did not write has a default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafka_rebalance.documents.storage import Folder, read_if_there, write_whole
from kafka_rebalance.errors import ArtifactError, FormatVersionError
from kafka_rebalance.kafka.given_json import refuse_constant
from kafka_rebalance.model.digests import digest_of

FORMAT_VERSION = 1

NONCE = "nonce.json"  # the run's first task writes it: a process that can read it shares the folder
SNAPSHOT = "snapshot.json"
SETTINGS = "settings.json"
SNAPSHOT_FOLDER = "snapshot"  # brokers.parquet, partitions.parquet and:
CONFIGS = "configs.json"
PROPOSALS = "proposals.json"
TIMINGS = "timings.json"
SEGMENTS = "segments.json"
REPORT = "report.html"
PAGE = "page.json"  # what the run's page shows of the plan's tables, so that it need not read them
REASSIGNMENTS = "reassignments"  # a folder: every candidate and its way back, for kafka-reassign-partitions
ESTIMATE = "estimate.json"  # how long the cluster's earlier runs took
RATES = "rates.json"  # each candidate's least throttle, and the throttle of `auto`
REJECTION = "rejection.json"  # the cluster's last rejected proposal, beside this one
DECISION = "decision.json"
THROTTLE = "throttle.json"  # the page's copy of the cluster's lease; the lease itself is kept apart from the runs:
LEASES = "leases"  # a folder below runs_url, with a folder for each cluster, in which the latest file counts
LOCKS = "locks"  # a folder below runs_url, with a file for each lock that a run has or is about to take
JANITOR = "janitor"  # a folder below runs_url, with a file for each connection: what the janitor found
INSTALLATION = "installation.json"  # below runs_url: distinguishes two Airflows of one name
BATCHES = "batches.json"
PROGRESS = "progress.json"
FOLLOWING = "following.json"  # the batch that the triggerer follows
RATE_STEPS = "rate_steps.json"  # the rates that a run with a range of them has chosen
CONTROL = "control.json"  # what people ask of a running rebalance
CANCELLED = "cancelled.json"  # the cancel alone, so that nobody who writes control.json at the same moment loses it
LEFT_OUT = "left_out.json"  # approved moves that are not made, why, and the scores of the rest
VERIFICATION = "verification.json"
VERDICT = "verdict.json"  # of the nightly check
TOPIC = "topic.json"  # kafka_topics writes it: the request, and the change that it will make
TOPICS = "topics.json"  # what list and describe found
FORECAST = "forecast.json"
HANDED_ON = "handed_on.json"  # the conf of another Dag's run that this run starts
LOG_DIRS = "log_dirs.json"  # kafka_log_dirs writes it: the request, the moves, and what they do to each log dir
CANCEL = "cancel.json"  # kafka_rebalance_cancel writes it: the request, and what it would do

T = TypeVar("T")

CLEAR = "Clear the task that wrote it."

if TYPE_CHECKING:
    Time = datetime
else:

    class Time(datetime):
        """A moment in a file: ISO 8601 with its zone. Nobody can tell which moment a time without a zone means."""


def omitted(default: Any = None) -> Any:
    """A field that is not written if it has its default."""
    return field(default=default, metadata={"omitted": True})


@dataclass(frozen=True, slots=True)
class JsonFile(Generic[T]):
    """One file of a folder, and the type of its content. `remedy` is for a file that no task can write again."""

    name: str
    type: type[T]
    remedy: str = CLEAR

    def decode(self, document: object) -> T:
        """Raises ArtifactError."""
        return decode(self.type, document, self.name, self.remedy)

    def read(self, folder: Folder) -> T:
        """Errors as in `read_json`, and ArtifactError for a missing or wrong value."""
        return decode(self.type, read_json(folder, self.name), f"{folder / self.name}", self.remedy)

    def read_with_digest(self, folder: Folder) -> tuple[T, str]:
        """The value, and the digest of the whole file: also of keys that `type` does not have. Errors as in `read`."""
        document = read_json(folder, self.name)
        return decode(self.type, document, f"{folder / self.name}", self.remedy), digest_of(document)

    def read_if_there(self, folder: Folder) -> T | None:
        """None if there is no such file. Errors as in `read`."""
        document = read_json_if_there(folder, self.name)
        return None if document is None else decode(self.type, document, f"{folder / self.name}", self.remedy)

    def write(self, folder: Folder, value: T, *, source_digest: str | None = None, first_stays: bool = False) -> str:
        """As `write_json`."""
        return write_json(folder, self.name, plain(value), source_digest=source_digest, first_stays=first_stays)


def decode(kind: type[T], document: object, where: str, remedy: str = CLEAR) -> T:
    """The value that plain JSON stands for. Keys that `kind` does not have are passed over.

    Raises ArtifactError for a missing or wrong value, naming `where` and the place in it.
    """
    import msgspec  # imported here, so that executors need not have it

    try:
        return msgspec.convert(document, kind, str_keys=True, dec_hook=_time)
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError) as wrong:  # half a surrogate pair has no bytes
        problem, _, place = str(wrong).partition(" - at ")
        place = re.sub(r"`|\$\.?", "", place)
        raise ArtifactError(f"{where}: {place + ': ' if place else ''}{problem.replace('`', '')}. {remedy}") from wrong


def _time(kind: type, value: object) -> object:
    moment = kind.fromisoformat(value) if kind is Time and isinstance(value, str) else None  # type: ignore[attr-defined]
    if moment is None or moment.tzinfo is None:
        raise ValueError("Expected a time in ISO 8601 with its zone")
    return moment


def time_in(text: str | None) -> datetime | None:
    """The time that a text says, if it is one with its zone."""
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def plain(value: object) -> Any:
    """The value as JSON has it, one level deep."""
    if is_dataclass(value):
        written = {key: getattr(value, key.name) for key in fields(value) if key.init}
        return {
            key.name: _by_text(it) for key, it in written.items() if "omitted" not in key.metadata or it != key.default
        }
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _by_text(value: object) -> object:
    """JSON sorts keys as text."""
    return {str(key): it for key, it in value.items()} if isinstance(value, Mapping) else value


def write_json(
    folder: Folder,
    name: str,
    content: Mapping[str, Any],
    *,
    source_digest: str | None = None,
    first_stays: bool = False,
) -> str:
    """Writes one file with its format version, and returns the digest of its content. Values may be dataclasses.

    A reader, also after a crash, finds the old file or the new one, never a part. `first_stays`: as for `write_whole`.
    Raises StorageError.
    """
    document: dict[str, Any] = {"format_version": FORMAT_VERSION, **content}
    if source_digest is not None:
        document["source_digest"] = source_digest
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False, default=plain) + "\n"
    write_whole(folder / name, text.encode("utf-8", "surrogatepass"), first_stays=first_stays)
    # The digest is of what a reader gets: keys that were numbers are text by then, and sort differently.
    return digest_of(json.loads(text))


def as_read(value: object) -> Any:
    """The value of a file's type, as who reads the file as plain JSON gets it."""
    return json.loads(json.dumps(plain(value), default=plain))


def read_json(folder: Folder, name: str) -> dict[str, Any]:
    """The file's content. Raises ArtifactError for a missing or unusable file, FormatVersionError, StorageError."""
    document = read_json_if_there(folder, name)
    if document is None:
        raise ArtifactError(f"{name} is not in the run's folder {folder}. Run the task that writes it.")
    return document


def read_json_if_there(folder: Folder, name: str) -> dict[str, Any] | None:
    """The file's content; None if there is no such file. Errors as in `read_json`."""
    text = read_if_there(folder / name)
    if text is None:
        return None
    try:
        document = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as bad:
        raise ArtifactError(f"{folder / name} is not JSON ({bad}). Clear the task that wrote it.") from bad
    if not isinstance(document, dict):
        raise ArtifactError(f"{folder / name} is not a JSON object. Clear the task that wrote it.")
    check_format_version(document.get("format_version"), f"{folder / name}")
    return document


def check_format_version(version: object, where: str) -> None:
    """Raises FormatVersionError for a file whose major version this code does not know."""
    if type(version) is not int or version != FORMAT_VERSION:
        raise FormatVersionError(
            f"{where} has format_version {version!r}, but this version reads {FORMAT_VERSION}. "
            "Start a new Dag run with the version that is deployed."
        )
