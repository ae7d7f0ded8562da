"""One candidate's part of the page: its pictures, and of long tables what matters most."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.report.candidate.broker_loads import (
    CHANGED,
    WORST,
    BrokerChange,
    RackChange,
    listed_brokers,
    rack_changes,
)
from kafka_rebalance.report.candidate.candidate_report import CandidateReport
from kafka_rebalance.report.plots.broker_loads import broker_plots
from kafka_rebalance.report.plots.disk_fullness import disk_plot
from kafka_rebalance.report.plots.figure import Plot
from kafka_rebalance.report.plots.timetable import timetable_plot
from kafka_rebalance.report.units import format_count

MOVES_LISTED = 50


@dataclass(frozen=True, slots=True)
class Details:
    """What is shown of one candidate, and of how much."""

    candidate: CandidateReport
    plots: tuple[Plot, ...]
    timetable_plot: Plot | None
    disk_plot: Plot | None
    brokers: tuple[BrokerChange, ...]
    brokers_caption: str
    racks: tuple[RackChange, ...]
    moves: tuple[Move, ...]
    moves_caption: str

    @property
    def pictures(self) -> tuple[Plot | None, ...]:
        """By the number that the page's addresses give them."""
        return (*self.plots, self.disk_plot, self.timetable_plot)


def details_of(candidate: CandidateReport, moves_listed: int = MOVES_LISTED) -> Details:
    """The candidate with its pictures, which are not drawn yet."""
    brokers, moves = listed_brokers(candidate.brokers), candidate.largest_moves[:moves_listed]
    return Details(
        candidate,
        broker_plots(candidate.brokers),
        timetable_plot(candidate.timetable, candidate.makespan_seconds),
        disk_plot(candidate.fullest_disks),
        brokers,
        _brokers_caption(len(brokers), len(candidate.brokers)),
        rack_changes(candidate.brokers),
        moves,
        _moves_caption(len(moves), candidate.partitions),
    )


def _brokers_caption(listed: int, total: int) -> str:
    if listed == total:
        return "What each broker holds, before → after"
    return (
        f"{listed} of {format_count(total, 'broker', 'brokers')}: the {WORST} whose disks get fullest and the "
        f"{CHANGED} that change most, fullest first; before → after"
    )


def _moves_caption(listed: int, total: int) -> str:
    count = format_count(total, "move", "moves")
    return (
        f"All {count}, by bytes to copy." if listed == total else f"The largest {listed} of {count}, by bytes to copy."
    )
