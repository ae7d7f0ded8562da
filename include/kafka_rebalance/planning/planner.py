"""Plans a snapshot: reads and checks the tables, proposes every candidate, writes the results.

The Spark job takes the same steps, but its executors propose.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kafka_rebalance.documents.json_files import TIMINGS, JsonFile, plain
from kafka_rebalance.documents.proposals import (
    PROPOSALS_FILE,
    Proposals,
    ProposedCandidate,
    Scores,
    group_in_words,
    rack_limit_in_words,
)
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.amounts_in_words import bound_in_words
from kafka_rebalance.model.settings import BALANCED, LEADERS_ONLY, LIGHT, OPTIMAL, Settings
from kafka_rebalance.planning.candidates import (
    attempted,
    check_some_stand,
    chosen,
    described,
    propose,
    searched,
    searches_of,
)
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.describe.sharper_bound import with_sharper_bounds
from kafka_rebalance.planning.describe.shortfall import asked_cells, held_now
from kafka_rebalance.planning.evenness import outlook, ratios
from kafka_rebalance.planning.given_plan import check_plan
from kafka_rebalance.planning.impossible_requests import check_problem
from kafka_rebalance.planning.problem.arrays import METRICS, Floats, Problem, loads_now, replication, shares
from kafka_rebalance.planning.problem.bytes_per_partition import describe_history
from kafka_rebalance.planning.problem.pools import parts_of
from kafka_rebalance.planning.recommendation import ranking, recommend
from kafka_rebalance.planning.rules.goals import candidate_names, goal_of
from kafka_rebalance.planning.search.frame import FoundLists, frame_of
from kafka_rebalance.planning.search.optimal import applies
from kafka_rebalance.planning.tables.history import HISTORY, planned_with, read_topic_rates
from kafka_rebalance.planning.tables.parquet_files import give_memory_back, write_rows, write_table
from kafka_rebalance.planning.tables.read_problem import read_problem
from kafka_rebalance.planning.tables.result_tables import (
    CANDIDATES_SCHEMA,
    LOADS_SCHEMA,
    SCORES_SCHEMA,
    disk_table,
    moves_of,
)


def prepare(snapshot_folder: Folder, settings: Settings) -> Problem:
    """The snapshot as a problem that has passed every check.

    Raises ArtifactError and PlanningError; for a plan in the settings also SettingsError and KafkaRuleError.
    """
    problem = read_problem(snapshot_folder, settings)
    give_memory_back()
    check_problem(problem)
    check_plan(problem)
    return problem


def check_samples_given(settings: Settings, snapshot_folder: Folder, given: bool) -> None:
    """Raises SettingsError if the settings ask for rates by hour, and there is nothing that may have them."""
    if settings.even_at_worst_hour and not given and read_topic_rates(snapshot_folder) is None:
        raise SettingsError(
            "even_at_worst_hour needs the ledger's samples or a metrics server, and this plan was given neither. "
            "Nothing was planned. Give --metrics (on Spark) or --history, or leave the setting out."
        )


def offered(problem: Problem) -> tuple[str, ...]:
    """The candidates to compute for this cluster: `optimal` only if it applies, or if the settings ask for no other."""
    names = candidate_names(problem.settings)
    return names if names == (OPTIMAL,) or applies(problem) else tuple(name for name in names if name != OPTIMAL)


class Lap(NamedTuple):
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Timings:
    """By step, or by candidate and step."""

    seconds: Mapping[str, float | Mapping[str, float]]
    cpu_seconds: Mapping[str, float | Mapping[str, float]]


TIMINGS_FILE = JsonFile(TIMINGS, Timings)


class Stopwatch:
    """Seconds of each step, and CPU seconds of this process, for timings.json."""

    def __init__(self) -> None:
        self.seconds: dict[str, float | dict[str, float]] = {}
        self.cpu_seconds: dict[str, float | dict[str, float]] = {}
        self._began = time.perf_counter(), time.process_time()

    def lap(self, step: str) -> Lap:
        """Ends the step that began with the last lap. Returns what it took."""
        began, self._began = self._began, (time.perf_counter(), time.process_time())
        lap = Lap(*(round(now - then, 3) for now, then in zip(self._began, began, strict=True)))
        self.note(step, lap)
        return lap

    def note(self, step: str, lap: Lap, outcome: Lap | None = None) -> None:
        """What a step took; with `outcome` that of a candidate's search, and of what comes after."""
        if outcome is None:
            self.seconds[step], self.cpu_seconds[step] = lap
        else:
            self.seconds[step] = {"search": lap.seconds, "outcome": outcome.seconds}
            self.cpu_seconds[step] = {"search": lap.cpu_seconds, "outcome": outcome.cpu_seconds}


def run(
    snapshot_folder: Folder,
    out_folder: Folder,
    settings: Settings,
    progress: Callable[[str], None] = lambda line: None,
    history: bytes | None = None,
) -> tuple[DescribedCandidate, ...]:
    """Plans every candidate in this process, and writes the tables. Calls `progress` with a line at every step.

    `history` is the content of a Spark job's `history/part-0.parquet`.
    """
    watch = Stopwatch()
    check_samples_given(settings, snapshot_folder, history is not None)
    problem = prepare(snapshot_folder, settings)
    progress(problem_in_words(problem))
    problem = planned_with(problem, snapshot_folder, history, HISTORY)
    if problem.rates.history is not None:
        progress(describe_history(problem))
    watch.lap("read")
    plans = []
    for name in offered(problem):
        found = attempted(problem, name, partial(_found, problem, name))
        searching = watch.lap(name)
        plans.append(attempted(problem, name, partial(described, problem, name, found)))
        watch.note(name, searching, watch.lap(name))
        progress(f"candidate {name} is planned")
    return finish(out_folder, problem, plans, watch, progress)


def _found(problem: Problem, name: str) -> FoundLists | DescribedCandidate:
    searches = searches_of(problem, name)
    return chosen(
        problem, name, [attempted(problem, name, partial(searched, problem, name, search)) for search in searches]
    )


def finish(
    out_folder: Folder,
    problem: Problem,
    found: Sequence[DescribedCandidate],
    watch: Stopwatch,
    progress: Callable[[str], None],
) -> tuple[DescribedCandidate, ...]:
    """Tells the plans and writes tables, proposals and timings. Returns the plans as told, with sharper bounds.

    Raises PlanningError if all candidates have failed.
    """
    check_some_stand(found)
    plans = with_sharper_bounds(problem, found)
    watch.lap("bounds")
    for plan in plans:
        progress(_describe_plan(plan))
    write_results(out_folder, problem, plans)
    watch.lap("write")
    # Outside every digest.
    TIMINGS_FILE.write(out_folder, Timings(watch.seconds, watch.cpu_seconds))
    return plans


def problem_in_words(problem: Problem) -> str:
    """One line on the job and the cluster."""
    replicas = int((problem.replicas >= 0).sum())
    return (
        f"job {problem.settings.job}: {len(problem.partition):,} partitions of {len(problem.topics):,} topics, "
        f"{replicas:,} replicas on {len(problem.brokers):,} brokers"
    )


def _describe_plan(plan: DescribedCandidate) -> str:
    """One line on one candidate."""
    figures = plan.candidate.summary
    bound = bound_in_words(figures["moved_bytes"] or 0, figures["moved_bytes_bound"])
    said = f"{len(plan.candidate.moves):,} moves, {figures['moved_bytes']:,} bytes in {figures['batches']} batches"
    said += f"; {bound}" if bound else ""
    return f"{plan.candidate.name}: {plan.candidate.status}, {said}. {plan.note}".rstrip()


# The files that planning writes into the run's folder, for the command line and for the Spark job.


def write_results(folder: Folder, problem: Problem, plans: Sequence[DescribedCandidate]) -> None:
    """Writes all files of planning except its timings. The same plans give the same bytes."""
    best = recommend(problem.settings, plans)
    write_table(folder / "moves", moves_of((plan.candidate.name, plan.candidate.moves) for plan in plans))
    write_rows(folder / "scores", [row for plan in plans for row in _score_rows(plan)], SCORES_SCHEMA)
    write_rows(folder / "candidates", [_candidate_row(problem, plan) for plan in plans], CANDIDATES_SCHEMA)
    write_rows(folder / "loads", [row for plan in plans for row in _load_rows(problem, plan)], LOADS_SCHEMA)
    used = [(plan.candidate.name, plan.disks) for plan in plans if plan.disks is not None]
    parts = [(name, (disks.batch, disks.broker, disks.peak_bytes, disks.after_bytes)) for name, disks in used]
    write_table(folder / "disk", disk_table(parts))
    proposals = Proposals(
        problem.snapshot_digest,
        problem.settings.to_mapping(),
        best.candidate,
        tuple(map(_proposal, plans)),
        tuple(ranking(plans, best.candidate)),
        best,
        outlook(problem),
        problem.rates.history,
    )
    PROPOSALS_FILE.write(folder, proposals)


def _score_rows(plan: DescribedCandidate) -> list[dict[str, Any]]:
    phases = (("before", plan.scores_before), ("after", plan.scores_after))
    return [
        {"candidate": plan.candidate.name, "phase": phase, "metric": metric, **plain(score)}
        for phase, by_metric in phases
        for metric, score in by_metric.items()
    ]


def _candidate_row(problem: Problem, plan: DescribedCandidate) -> dict[str, Any]:
    settings, candidate = problem.settings, plan.candidate
    own = {"candidate": candidate.name, "status": candidate.status, "note": plan.note, "digest": candidate.digest}
    return {**own, "job": settings.job, "tolerance": settings.tolerance, "seed": settings.seed, **candidate.summary}


def _load_rows(problem: Problem, plan: DescribedCandidate) -> list[dict[str, Any]]:
    rows = []
    networks = [[None if np.isnan(one) else one for one in pair] for pair in problem.networks.tolist()]
    for phase, loads, out in zip(
        ("before", "after"), (plan.loads_before, plan.loads_after), plan.bytes_out, strict=True
    ):
        for number, broker in enumerate(problem.brokers.tolist()):
            replicas, disk, bytes_in, leaders, sent = loads[number].tolist()
            capacity = problem.disk_capacity[number]
            row = {
                "candidate": plan.candidate.name,
                "phase": phase,
                "broker": broker,
                "rack": problem.racks[number],
                "replicas": int(replicas),
                "leaders": int(leaders),
                "size_bytes": int(disk),
                "bytes_in_per_second": bytes_in if problem.rates.knows_in else None,
                "leader_bytes_out_per_second": sent if "leader_bytes_out" in plan.scores_before else None,
                "disk_capacity_bytes": None if np.isnan(capacity) else int(capacity),
                "bytes_out_per_second": None if out is None else float(out[number]),
                "nic_in_bytes_per_second": networks[number][0],
                "nic_out_bytes_per_second": networks[number][1],
            }
            rows.append(row)
    return rows


def _proposal(plan: DescribedCandidate) -> ProposedCandidate:
    candidate = plan.candidate
    figures: dict[str, Any] = {**candidate.summary, **plan.consequences}
    return ProposedCandidate(
        candidate.name,
        candidate.digest,
        candidate.status,
        note=plan.note,
        less_even=plan.less_even(),
        rack_limits=tuple(map(rack_limit_in_words, plan.rack_limits)),
        groups=tuple(map(group_in_words, plan.changes)),
        scores=Scores(plan.scores_before, plan.scores_after),
        **figures,
    )


# Whether a plan can bring brokers of a cluster nearer to a limit: the planner is asked for one.


_CANDIDATES = (LEADERS_ONLY, LIGHT, BALANCED)  # of a run: a further candidate takes no recommendation away
_MATTERS = 1e-4  # of what brokers are beyond the limit: a smaller part is rounding


@dataclass(frozen=True, slots=True)
class Reachable:
    """How even one metric is against the shares that brokers can reach, and how far these are from their shares."""

    can_help: bool  # a broker is off its reachable share by more than the limit, and the recommended plan helps
    furthest: float  # how far the worst broker is from its reachable share, as a share of it
    forced: float  # how far racks and disks keep a broker from its share of everything, as a share of that


def tolerance_for(limit: float) -> float:
    """The tolerance of a plan for a cluster past this limit: at most half of it, so that the plan lasts for a while."""
    return min(Settings().tolerance, limit / 2)


def can_be_more_even(problem: Problem, metrics: Sequence[str], limit: float) -> Mapping[str, Reachable]:
    """By metric. With pools it is the worst of them.

    It plans as a run would. Raises PlanningError where a run would refuse to plan.
    """
    asked = replace(problem, settings=replace(problem.settings, tolerance=tolerance_for(limit)))
    check_problem(asked)
    helped = _helped(asked, limit)
    return {
        metric: replace(one, can_help=metric in helped and one.furthest > limit)
        for metric, one in _reachable(problem, metrics).items()
    }


def _helped(problem: Problem, limit: float) -> tuple[str, ...]:
    """The metrics in which the recommended plan lessens what brokers are beyond the limit; none without such a plan."""
    plans = [attempted(problem, name, partial(propose, problem, name)) for name in _CANDIDATES]
    check_some_stand(plans)
    chosen = recommend(problem.settings, plans).candidate
    plan = next((plan for plan in plans if plan.candidate.name == chosen), None)
    if plan is None:
        return ()
    share, stays = shares(problem), problem.staying

    def beyond(loads: Floats) -> Floats:
        """[METRICS] Squared, summed over brokers. A load without a share has no figure."""
        off = np.abs(ratios(problem, loads, share)[stays] - 1)
        summed: Floats = np.square(np.maximum(0.0, np.where(np.isfinite(off), off, 0.0) - limit)).sum(axis=0)
        return summed

    before, after = beyond(plan.loads_before), beyond(plan.loads_after)
    return tuple(METRICS[k] for k in np.flatnonzero(after < before * (1 - _MATTERS)).tolist())


def _reachable(problem: Problem, metrics: Sequence[str]) -> dict[str, Reachable]:
    found = [_reachable_in_pool(part.problem, metrics) for part in parts_of(problem)]
    return {
        metric: Reachable(False, max(own[metric].furthest for own in found), max(own[metric].forced for own in found))
        for metric in metrics
    }


def _reachable_in_pool(problem: Problem, metrics: Sequence[str]) -> dict[str, Reachable]:
    frame = frame_of(problem, goal_of(problem.settings, BALANCED), replication(problem.replicas))
    held, loads = held_now(problem, frame.targets, frame.scale), loads_now(problem)
    cells, forced = asked_cells(problem, held), ratios(problem, held.targets, shares(problem))
    relative = np.divide(loads, held.targets, out=np.ones_like(loads), where=held.targets > 0)

    def furthest(of_share: Floats, k: int) -> float:
        return float(np.abs(of_share[cells[:, k], k] - 1).max(initial=0.0))

    return {
        metric: Reachable(False, furthest(relative, k), furthest(forced, k))
        for metric in metrics
        for k in (METRICS.index(metric),)
    }
