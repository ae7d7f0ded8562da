"""What time and reviewers do to approvals and windows, and what these allow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.rebalance import request_batch
from kafka_rebalance.run import checks_before_write
from kafka_rebalance.run.approved_plan import ApprovedPlan
from kafka_rebalance.run.checks.batch_wait import Wait
from support.histories.process import Process
from support.runs.rebalance_run import POLICY

Key = tuple[str, int]
PLANNED_UNDER = f"{POLICY}partitions_per_batch: 2\n"
CHANGED = f"{POLICY}partitions_per_batch: 3\n"
OPENS_AT = datetime(2100, 1, 1, tzinfo=UTC)
YEARS = 1e9  # seconds, after which every approval has expired


class Papers:
    """Approvals are those of two plans that were made under one policy."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    moves: dict[str, dict[Key, Move]]  # approved, by run
    requested: dict[str, set[Key]]  # what each run has ever requested
    later_seconds: float
    policy_versions: int
    is_closed: bool  # the window
    window_changes: int

    def _make_clock(self) -> None:
        """Once for a world: the time at which approvals are looked at."""
        world = self

        def later() -> datetime:
            return datetime.now(UTC) + timedelta(seconds=world.later_seconds)

        self.monkeypatch.setattr(checks_before_write, "clock", SimpleNamespace(utc_now=later))

    def _do_approval_expires(self, number: int) -> bool:
        self.later_seconds = YEARS
        return True

    def _do_window(self, number: int) -> bool:
        """It closes, or more often opens."""
        before, self.is_closed = self.is_closed, number % 4 == 0
        self.window_changes += before != self.is_closed
        return True

    def _make_window(self) -> None:
        """Once for a world: whether the next batch would end in its window."""

        def wait_for_window(deployment: object, plan: ApprovedPlan, *_: object, **__: object) -> Wait | None:
            self.pauses += self.is_closed
            return Wait(plan.connection_id, str(plan.folder), not_before=OPENS_AT) if self.is_closed else None

        self.pauses = 0
        self.monkeypatch.setattr(request_batch, "wait_for_window", wait_for_window)

    def _do_policy_changes(self, number: int) -> bool:
        """A reviewed change of the policy, or one that takes it back."""
        self.policy_versions += 1
        self._write_policy()
        return True

    @property
    def policy_changed(self) -> bool:
        return self.policy_versions % 2 == 1

    def _write_policy(self) -> None:
        for path in (self.folder / "policies").glob("*.yaml"):
            path.write_text(CHANGED if self.policy_changed else PLANNED_UNDER)

    def _judge_papers(self, process: Process, said: str) -> None:
        """Whether the approval counts: before the first request it must be fresh, and its policy must always be the
        one of today. Moves are requested while the window is open.
        """
        begun = process.run in self.requested
        assert begun or not process.late, f"{said}: with an expired approval, and nothing of this run was begun"
        changed = process.policy_versions % 2 == 1 and self.policy_versions == process.policy_versions
        assert not changed, f"{said}: under a policy that was not approved"
        if process.kind in ("request", "resume"):
            always_closed = process.window_was_closed and self.window_changes == process.window_changes
            assert not always_closed, f"{said}: outside of the window"
        assert process.papers_of is None, f"{said}: by the files of {process.papers_of}"

    def _judge_followed(self, run: str, batch: int) -> None:
        """A batch that is said to be under way was requested by this run."""
        keys = {key for key, move in self.moves[run].items() if move.batch == batch}
        assert keys & self.requested.get(run, set()), f"{run} follows batch {batch}, which it has never requested"
