"""What the first screen of a run's page shows of each candidate, and the sums in the headings of what is closed."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.model.candidate import OFFERED, Status
from kafka_rebalance.pages.brokers_at_a_glance import glance_plot
from kafka_rebalance.pages.candidate_report import CandidateReport
from kafka_rebalance.pages.figure import Plot
from kafka_rebalance.pages.key_figures import KeyFigures, key_figures
from kafka_rebalance.pages.risks import Risk, risks
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.units import format_bytes, format_count, format_share


@dataclass(frozen=True, slots=True)
class Look:
    """One candidate at a glance. Nothing is drawn yet."""

    number: int  # in the address of its part of the page
    candidate: CandidateReport
    figures: KeyFigures
    risks: tuple[Risk, ...]
    plot: Plot | None
    is_default: bool  # shown until the reader chooses another one
    is_recommended: bool
    is_stopped: bool  # not offered: its copies could not end

    @property
    def is_possible(self) -> bool:
        """Whether it does the job within the limits, in full or in part."""
        return self.candidate.status in OFFERED

    @property
    def has_failed(self) -> bool:
        """Whether its computation ended with an error."""
        return self.candidate.status == Status.FAILED

    @property
    def has_capacities(self) -> bool:
        """Whether the picture shows what disks can hold."""
        return any(one.disk_capacity_bytes for one in self.candidate.brokers)


def looks_of(report: RunReport) -> tuple[Look, ...]:
    """One for each candidate, in the order of the plan."""
    return tuple(
        Look(
            number,
            one,
            key_figures(report, one),
            risks(report, one),
            glance_plot(one.brokers),
            one is report.focus,
            one.name == report.recommended,
            one.name in report.stopped,
        )
        for number, one in enumerate(report.candidates, 1)
    )


def moves_sum(candidate: CandidateReport) -> str:
    """`34 moves of 6 topics, 287 GiB`."""
    moves = format_count(candidate.partitions, "move", "moves")
    held_up = candidate.held_up
    of = f" of {format_count(held_up.topics, 'topic', 'topics')}" if held_up is not None and held_up.topics else ""
    return f"{moves}{of}, {format_bytes(candidate.moved_bytes)}" if candidate.moved_bytes else f"{moves}{of}, no copies"


def limits_sum(report: RunReport) -> str:
    """The limit of which the candidate in focus uses most; empty if no share says anything."""
    known = [(use.share, use.name) for use in report.limits if use.share is not None]
    if not known:
        return ""
    share, name = max(known, key=lambda use: use[0])
    return f"at most {format_share(share)} used, {name[0].lower()}{name[1:]}"
