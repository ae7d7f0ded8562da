"""A person approves one plan of moves between log dirs, or rejects it."""

from __future__ import annotations

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE, DirForecast, PlannedLogDirs
from kafka_rebalance.log_dirs.page import asked_words, fullest_first, largest_first, peak_share, windows_words
from kafka_rebalance.pages.markdown import asked_by, code, on_cluster, table
from kafka_rebalance.pages.units import about, format_bytes, format_count, format_rate, format_share
from kafka_rebalance.run.approval_request import Approval, Offer, RunLinks, offer_in
from kafka_rebalance.run.run_folder import RunFolder


class LogDirApproval(Approval):
    """Offers the plan of log_dirs.json."""

    behind = ("hold_rate", "move", "release_rate", "verify")
    shown = (json_files.LOG_DIRS,)

    def offer(self, folder: RunFolder) -> Offer:
        written, digest = LOG_DIRS_FILE.read_with_digest(folder)
        return offer_in(written, digest, {written.plan.job: written.plan.digest})

    def texts(self, folder: RunFolder, links: RunLinks) -> tuple[str, str]:
        written = LOG_DIRS_FILE.read(folder)
        return approval_subject(written), approval_body(written)


# The texts of `kafka_log_dirs`: lines for the log, and an approval request.


_LARGEST, _DIRS = 5, 24


def plan_lines(written: PlannedLogDirs) -> tuple[str, ...]:
    """What will be copied, for the log: all moves are in log_dirs.json."""
    return (
        f"{asked_words(written)}: {_amounts(written)}",
        *(
            f"{move.replica}: {move.before} -> {move.after}, {format_bytes(move.size_bytes)}"
            for move in largest_first(written)[:_LARGEST]
        ),
        *(f"broker {forecast.broker} {forecast.path}: {_fill(forecast)}" for forecast in written.dirs[:_DIRS]),
    )


def approval_subject(written: PlannedLogDirs) -> str:
    """One line of plain text."""
    return f"Kafka {written.connection_id}: {asked_words(written)}?"


def approval_body(written: PlannedLogDirs) -> str:
    """Markdown: what is copied, for how long, how full the disks get meanwhile, and the largest moves."""
    plan = written.plan
    moves = [
        (f"{code(f'{move.topic}-{move.partition}', 120)}", move.broker, code(move.before, 120), code(move.after, 120),
         format_bytes(move.size_bytes))
        for move in largest_first(written)[:_LARGEST]
    ]  # fmt: skip
    dirs: list[tuple[object, ...]] = [
        (
            forecast.broker,
            code(forecast.path, 120),
            format_bytes(forecast.before_bytes),
            format_bytes(forecast.after_bytes),
            _peak(forecast),
        )
        for forecast in fullest_first(written.dirs)[:_DIRS]
    ]
    dirs += [("…", f"{len(written.dirs) - _DIRS} more, on the run's tab", "", "", "")] if written.dirs[_DIRS:] else []
    words = asked_words(written, lambda name: code(name, 120))
    parts = [
        f"**{words}** {on_cluster(written.connection_id, plan.cluster_id)}",
        asked_by(written.requested_by, written.reason),
        f"{_amounts(written)}. Replica lists, leaders and ISRs stay as they are.",
        table(("#Broker", "Log dir", "#Replicas now", "#After", "#Disk at the peak"), dirs),
        "At the peak each copy counts, and nothing that leaves: Kafka deletes a replica only after its copy has taken "
        "its place. Each log dir counts as a disk of its own.",
        f"The {len(moves)} largest moves; the run's tab Rebalance has more:"
        if len(plan.moves) > len(moves)
        else "The moves:",
        table(("Replica", "#Broker", "From", "To", "#Size"), moves),
        *([windows] if (windows := windows_words(written)) else []),
        f"To stop the run, mark its task `move` as failed: copies under way are then cancelled. To go back, start "
        f"kafka_log_dirs with job way_back and of_run {code(written.run_id, 120)}.",
        f"**Digest** {code(written.digest, 80)}",
    ]
    return "\n\n".join(parts)


def _amounts(written: PlannedLogDirs) -> str:
    plan = written.plan
    text = (
        f"{format_count(len(plan.moves), 'replica', 'replicas')} on "
        f"{format_count(len(plan.brokers), 'broker', 'brokers')}, {format_bytes(plan.size_bytes)} (no plan copies less "
        f"than {format_bytes(written.bound_bytes)}), {about(plan.seconds)} at "
        f"{format_rate(plan.throttle_bytes_per_second)} on each broker, at most "
        f"{plan.copies_per_broker} replicas of a broker at once"
    )
    if written.left_bytes:
        text += f"; {format_bytes(written.left_bytes)} stay outside the band"
    return text


def _peak(forecast: DirForecast) -> str:
    share = peak_share(forecast)
    return f"{format_bytes(forecast.peak_bytes)} ({'size unknown' if share is None else format_share(share)})"


def _fill(forecast: DirForecast) -> str:
    before, after = format_bytes(forecast.before_bytes), format_bytes(forecast.after_bytes)
    return f"{before} -> {after}, disk at the peak {_peak(forecast)}"
