"""What decides about moves between log dirs: what is asked, where each move stands, and what fits a window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Any

from kafka_rebalance.documents.log_dir_plan import LogDirMove, LogDirPlan, Replica
from kafka_rebalance.errors import PlanningError, PolicyError, SettingsError
from kafka_rebalance.kafka.topics import KafkasOwn
from kafka_rebalance.model.amounts_in_words import duration_in_words
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.recurring_window import openings
from kafka_rebalance.model.settings import Settings, matches
from kafka_rebalance.model.value_readers import flag, globs, integer, number_reader, one_of
from kafka_rebalance.moves.eta import slowest_seconds
from kafka_rebalance.moves.windows import Window, recurring_windows
from kafka_rebalance.run.check_result import Check, CheckName

# How much a broker can copy between its log dirs before a window of the policy closes.


def window_of(plan: LogDirPlan) -> Window:
    return Window(recurring=recurring_windows(plan.windows))


def seconds_at_most(size_bytes: int, bytes_per_second: int) -> float:
    """What a copy of so many bytes may take, at the slow end of the estimate, if its broker copies nothing else."""
    return slowest_seconds(size_bytes / bytes_per_second, ())


def bytes_in_time(window: Window, bytes_per_second: int, now: datetime) -> float:
    """What each broker copies from now on until the window closes, even at the slow estimate; 0 while it is closed."""
    if not window.recurring:
        return inf
    opening = next(openings(window.recurring, now), None)
    if opening is None or now < opening.opens_at:
        return 0.0
    return (opening.closes_at - now).total_seconds() * bytes_per_second / slowest_seconds(1.0, ())


def check_fits_openings(plan: LogDirPlan, now: datetime) -> None:
    """Raises PlanningError if a copy would end in no opening of the windows."""
    window = window_of(plan)
    if not window.recurring:
        return
    largest = max(plan.moves, key=lambda move: (move.size_bytes, move.replica))
    seconds = seconds_at_most(largest.size_bytes, plan.throttle_bytes_per_second)
    if window.room_for(seconds, now) is None:
        longest = max((opening.seconds for opening in openings(window.recurring, now)), default=0.0)
        raise PlanningError(
            f"The copy of {largest.replica} may take up to {duration_in_words(seconds)}, and the policy's windows "
            f"({'; '.join(plan.windows)}) are open for {duration_in_words(longest)} at most. Nothing was written. Ask "
            "for a higher throttle, or tick outside_windows."
        )


# What a run of `kafka_log_dirs` is asked to do, and the limits of the cluster's policy on it.


BALANCE, DRAIN, WAY_BACK = JOBS = ("balance", "drain", "way_back")
TOLERANCE, COPIES_PER_BROKER = 0.10, 3
_UNREAD = "Nothing was read or written. Correct it."


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


# What Airflow's form takes for these is wider: 3.0 is an integer for it, and its API does not look into texts.
_READERS: dict[str, Callable[[Any], Any]] = {
    "job": one_of(JOBS),
    "broker": integer(0, 2**31 - 1),
    "log_dir": _text,
    "of_run": _text,
    "tolerance": number_reader("from 0 to 1", lambda share: 0 <= share <= 1),
    "throttle_bytes_per_second": integer(1),
    "copies_per_broker": integer(1),
    "topics_out": globs,
    "internal_topics": flag,
    "outside_windows": flag,
}


@dataclass(frozen=True, slots=True)
class AskedLogDirs:
    """One job. `broker`: the one to work on; None: all of them. `of_run`: the run to take back."""

    job: str
    broker: int | None = None
    log_dir: str | None = None  # the one to empty: an absolute path on the broker
    of_run: str | None = None
    tolerance: float = TOLERANCE
    throttle_bytes_per_second: int | None = None  # None: the policy's highest
    copies_per_broker: int = COPIES_PER_BROKER
    topics_out: tuple[str, ...] = ()  # globs of topics whose replicas stay, besides those of the policy
    internal_topics: bool = False
    outside_windows: bool = False

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> AskedLogDirs:
        """Raises SettingsError if the job lacks something, or has something that only another job uses."""
        given = {key: value for key, value in params.items() if value not in (None, "")}
        for name, reads in _READERS.items():
            try:
                if name in given:
                    given[name] = reads(given[name])
            except ValueError as wrong:
                raise SettingsError(f"{name} {wrong}, and is {str(given[name])[:100]!a}. {_UNREAD}") from wrong
        if "job" not in given:
            raise SettingsError(f"job is empty. {_UNREAD}")
        request = cls(**{name: given[name] for name in cls.__slots__ if name in given})
        needed = {BALANCE: (), DRAIN: ("broker", "log_dir"), WAY_BACK: ("of_run",)}[request.job]
        missing = [name for name in needed if name not in given]
        unused = [
            name
            for name in ("broker", "log_dir", "of_run")
            if name in given and name not in needed and (request.job, name) != (BALANCE, "broker")
        ]
        for names, why in ((missing, "needs"), (unused, "does not use")):
            if names:
                raise SettingsError(f"Job {request.job} {why} {', '.join(names)}. Nothing was read or written.")
        return request

    def limits(self, policy: Policy) -> tuple[int, int]:
        """(throttle, copies on one broker at once) within the policy. Raises PolicyError."""
        rate = self.throttle_bytes_per_second or policy.max_throttle_bytes_per_second
        problems = [problem] if (problem := policy.throttle_problem(rate)) else []
        if self.internal_topics and not policy.internal_topics:
            problems.append("the policy does not allow internal topics")
        if self.broker in policy.brokers_out:
            problems.append(f"brokers_out of the policy keeps out broker {self.broker}")
        if problems:
            raise PolicyError(f"The request goes beyond the policy: {'; '.join(problems)}. {_REMEDY}")
        return rate, min(self.copies_per_broker, policy.copies_limit)

    def windows(self, policy: Policy) -> tuple[str, ...]:
        """Those of the policy that the run takes; a way back takes none, because what goes wrong must not wait."""
        return () if self.outside_windows or self.job == WAY_BACK else policy.windows or ()

    def keeps(self, topic: str, policy: Policy, kafkas_own: KafkasOwn) -> bool:
        """Whether replicas of this topic stay where they are."""
        internal = kafkas_own.holds_back(topic) and not self.internal_topics
        return internal or matches(topic, (*self.topics_out, *policy.topics_out))


DISK_HEADROOM = Settings().disk_headroom
_REMEDY = "Correct the policy or the request, and start again."


def check_within_policy(plan: LogDirPlan, policy: Policy, cluster_bytes: int, kafkas_own: KafkasOwn) -> None:
    """Raises PolicyError if the plan goes beyond the policy. `cluster_bytes` is what all replicas hold together."""
    problems = [problem] if (problem := policy.throttle_problem(plan.throttle_bytes_per_second)) else []
    limit = policy.bytes_limit(cluster_bytes)
    if plan.size_bytes > limit:
        problems.append(f"{plan.size_bytes} bytes to copy are more than {limit} (max_bytes, max_bytes_share)")
    if plan.copies_per_broker > policy.copies_limit:
        problems.append(f"copies_per_broker is {plan.copies_per_broker}, at most {policy.copies_limit} are allowed")
    if out := sorted(plan.brokers & set(policy.brokers_out)):
        problems.append(f"brokers_out of the policy keeps out broker {', '.join(map(str, out))}")
    topics = {move.topic for move in plan.moves}
    kept = {topic for topic in topics if matches(topic, policy.topics_out)}
    kept |= set() if policy.internal_topics else {topic for topic in topics if kafkas_own.holds_back(topic)}
    if kept:
        problems.append(f"topics_out or internal_topics keeps out {', '.join(sorted(kept)[:5])}")
    if problems:
        raise PolicyError(f"The plan goes beyond the policy: {'; '.join(problems)}. {_REMEDY}")


# Whether each replica lies in the log dir of the approved plan, and no copy is left.


def check_log_dirs(
    moves: Iterable[LogDirMove], paths: Mapping[Replica, str], future: Mapping[Replica, str]
) -> tuple[Check, ...]:
    """`log_dir` for each move. `paths` are of replicas now, `future` of copies under way, on brokers that answered.

    A replica that its broker no longer has passes with a warning: its topic was deleted, or it moved to another broker.
    """
    return tuple(_check(move, paths.get(move.replica), future.get(move.replica)) for move in moves)


def _check(move: LogDirMove, path: str | None, coming: str | None) -> Check:
    subject, expectation = str(move.replica), f"in {move.after}, and no copy of it under way"
    if path is None:
        finding = "the broker no longer has this replica"
        return Check(CheckName.LOG_DIR, subject, expectation, finding, True, "warning")
    finding = f"in {path}" if coming is None else f"in {path}, and a copy goes to {coming}"
    return Check(CheckName.LOG_DIR, subject, expectation, finding, path == move.after and coming is None)
