"""The five figures by which one decides on a candidate, each with a word of judgement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kafka_rebalance.model.metrics import noun_of
from kafka_rebalance.pages.candidate_report import CandidateReport, above_least_words, off_share
from kafka_rebalance.pages.recurring_windows import fit_planned
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.run_state import Tone
from kafka_rebalance.pages.units import UNKNOWN, format_bytes, format_count, format_factor, format_range, format_share
from kafka_rebalance.pages.words_of_time_window import ends_in_time

LEAST, NEAR = 0.01, 0.10  # above the least possible bytes, as a share of them


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """`word` judges the value, and `tone` is its colour. `note` says what the value is measured against."""

    name: str
    value: str
    word: str
    tone: Tone
    note: str = ""


class KeyFigures(NamedTuple):
    """In the order in which they are shown."""

    copies: KeyFigure
    takes: KeyFigure
    fullest_disk: KeyFigure
    evenness: KeyFigure
    worst_loss: KeyFigure


def key_figures(report: RunReport, candidate: CandidateReport) -> KeyFigures:
    return KeyFigures(
        _copies(candidate),
        _takes(report, candidate),
        _fullest_disk(report, candidate),
        _evenness(report, candidate),
        _worst_loss(candidate),
    )


def _copies(candidate: CandidateReport) -> KeyFigure:
    if not candidate.moved_bytes:
        return KeyFigure("Copies", "nothing", "least", Tone.GOOD, _moves(candidate))
    above = candidate.above_least
    word, tone = "unproven", Tone.CALM
    if above is not None:
        word = "least" if above <= LEAST + 1e-9 else "near the least" if above <= NEAR else "above the least"
        tone = Tone.GOOD if above <= NEAR else Tone.ATTENTION
    note = ", ".join(filter(None, (_moves(candidate), above_least_words(candidate))))
    return KeyFigure("Copies", format_bytes(candidate.moved_bytes), word, tone, note)


def _moves(candidate: CandidateReport) -> str:
    return format_count(candidate.partitions, "move", "moves")


def _takes(report: RunReport, candidate: CandidateReport) -> KeyFigure:
    if not candidate.partitions:
        return KeyFigure("Takes", "no time", "nothing moves", Tone.CALM)
    found = report.takes(candidate)
    if found is None:
        return KeyFigure("Takes", UNKNOWN, UNKNOWN, Tone.CALM, "no throttle is set yet")
    window = report.window
    batches = format_count(candidate.batches, "batch", "batches")
    note = f"{batches}, by {format_count(found.runs)} earlier runs" if found.is_measured else f"{batches}, by the plan"
    word, tone = "at any time", Tone.CALM
    if window.recurring:
        planned = fit_planned(report, candidate)
        openings = 0 if planned is None else len(planned.used)
        word, tone = "fits", Tone.GOOD
        if planned is None or planned.ends_at is None:
            word, tone = ("unknown", Tone.CALM) if planned is None else ("does not fit", Tone.BAD)
        elif openings > 1:
            word, tone = f"takes {openings} windows", Tone.ATTENTION
    if window.finish_by is not None:
        in_time = ends_in_time(report, candidate)
        word, tone = ("fits", Tone.GOOD) if in_time else ("does not fit", Tone.BAD)
        if in_time is None:
            word, tone = "may not fit", Tone.ATTENTION
    return KeyFigure("Takes", format_range(found.low, found.high), word, tone, note)


def _fullest_disk(report: RunReport, candidate: CandidateReport) -> KeyFigure:
    name, peak = "Fullest disk meanwhile", candidate.peak_disk_fraction
    if not candidate.moved_bytes:
        return KeyFigure(name, "as now", "unchanged", Tone.CALM)
    if peak is None:
        return KeyFigure(name, UNKNOWN, UNKNOWN, Tone.CALM, "no disk's size is known")
    allowed = 1 - report.settings.disk_headroom
    disk = candidate.fullest_sized_disk
    where = [] if disk is None else [f"broker {disk.broker}"]
    note = ", ".join([*where, f"{format_share(allowed)} allowed"])
    if peak > allowed:
        return KeyFigure(name, format_share(peak), "too full", Tone.BAD, note)
    return KeyFigure(name, format_share(peak), "has room", Tone.GOOD, note)


def _evenness(report: RunReport, candidate: CandidateReport) -> KeyFigure:
    name, gain, off = "Highest broker", candidate.gain, off_share(candidate)
    asked = format_share(report.settings.tolerance)
    if candidate.less_even is not None:
        worse = candidate.less_even
        value = f"{format_factor(worse.before.highest)} → {format_factor(worse.after.highest)}"
        return KeyFigure(name, value, "worse", Tone.BAD, f"of its share of {noun_of(worse.metric)}")
    if off is None:
        return KeyFigure(name, UNKNOWN, UNKNOWN, Tone.CALM, "no load is known of every broker")
    if gain is None:
        high = max(score.max_over_mean for _, _, score in candidate.spreads if score is not None)
        word, tone = ("even", Tone.GOOD) if off <= report.settings.tolerance else ("unchanged", Tone.CALM)
        return KeyFigure(name, format_factor(high), word, tone, f"of its share, as now; {asked} off is asked for")
    metric, before, after = gain
    word = "even" if off <= report.settings.tolerance + 5e-4 else "more even"
    value = f"{format_factor(before)} → {format_factor(after)}"
    return KeyFigure(name, value, word, Tone.GOOD, f"of its share of {noun_of(metric)}")


def _worst_loss(candidate: CandidateReport) -> KeyFigure:
    name, worst = "If a broker fails", candidate.worst_case
    if not candidate.partitions:
        return KeyFigure(name, "as now", "unchanged", Tone.CALM)
    course = worst.broker if worst is not None else None
    if course is None:
        return KeyFigure(name, UNKNOWN, UNKNOWN, Tone.CALM, "no min.insync.replicas is known")
    most = max(course.worst.partitions, course.today.partitions)
    note = "refuse acks=all"
    if course.is_worse:
        today = f"today {format_count(course.today.partitions)}"
        value = format_count(course.worst.partitions, "partition", "partitions")
        return KeyFigure(name, value, "worse", Tone.ATTENTION, f"{note}; {today}")
    value = format_count(most, "partition", "partitions")
    if course.ends_worse:
        return KeyFigure(name, value, "worse later", Tone.ATTENTION, f"{note}; later {course.after.partitions:,}")
    return KeyFigure(name, value, "as today" if most else "harmless", Tone.CALM if most else Tone.GOOD, note)
