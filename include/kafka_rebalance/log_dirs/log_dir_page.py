"""The page of a run of `kafka_log_dirs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from kafka_rebalance.log_dirs import log_dir_figures as of_log_dirs
from kafka_rebalance.log_dirs.log_dir_run import LogDirRun
from kafka_rebalance.log_dirs.windows_words import windows_words
from kafka_rebalance.pages.run_state import Action
from kafka_rebalance.pages.shell import ANSWER_SECONDS, REFRESH_SECONDS, rendered
from kafka_rebalance.pages.what_failed import what_failed

MOVES_LISTED = 50


def render_log_dirs(
    run: LogDirRun,
    connection_id: str,
    *,
    static_url: str,
    pages: Mapping[Action, str],
    now: datetime,
    holds: Sequence[str],
) -> str:
    """The page. `pages` and `holds` as of `render_page` of a rebalance."""
    planned = run.planned
    return rendered(
        "log_dirs/run.html",
        static_url,
        run=run,
        state=run.state,
        connection_id=connection_id,
        title=f"Log dirs of {connection_id}",
        is_live=run.is_active and (run.state.changes_by_itself or run.has_open_request),
        press=of_log_dirs.buttons(run, pages),
        holds=holds,
        asked=of_log_dirs.asked_words(planned) if planned else "",
        windows=windows_words(planned) if planned else "",
        figures=of_log_dirs.log_dir_figures(planned) if planned else (),
        caveats=of_log_dirs.caveats(planned) if planned else (),
        dirs=of_log_dirs.fullest_first(planned.dirs) if planned else (),
        peak_share=of_log_dirs.peak_share,
        copy_states=of_log_dirs.COPY_STATES,
        moves=of_log_dirs.largest_first(planned) if planned else (),
        moves_listed=MOVES_LISTED,
        silence=of_log_dirs.silence(run, now),
        what_failed=what_failed(run.verification) if run.verification else (),
        refresh_seconds=REFRESH_SECONDS if run.state.changes_by_itself else ANSWER_SECONDS,
    )
