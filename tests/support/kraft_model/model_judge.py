"""Judges what a run writes and says by what must never happen, from the model's metadata and lock alone.

No request can be made conditional on the fence. So a request that comes late is judged by its announcement: it was in
the log, under the fence, before it went out, and it went out within seconds. A config is judged by the fence that its
writer has heard last.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from kafka_rebalance.admin.cluster_lock import PART_KEY, State, Write, unpack
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import CorruptZnodeError
from support.histories.lost_leases import lease_texts
from support.histories.papers import Key
from support.histories.process import Process
from support.histories.verdicts import Now, Verdicts
from support.kraft_model.broker_answers import config_changes
from support.kraft_model.cluster_metadata import Image
from support.kraft_model.model_controller import ModelController
from support.kraft_model.model_log import LockTopic
from support.kraft_model.model_wire import IDLE_SECONDS

SEND_SECONDS = 5.0  # from the check of the fence until a request is out
FOREVER = 1e9


class ModelJudge(Verdicts):
    writes_with_the_lock = False

    controller: ModelController
    lock_topic: LockTopic
    version: str

    def _begin_judging(self) -> None:
        self.announced: dict[int, list[tuple[float, dict[Key, list[int]]]]] = {}  # by the process, with its time
        self.raised_by: dict[str, int] = {}  # the process that raised the fence to this generation
        self.heard: dict[int, tuple[float, str]] = {}  # the fence that a process has heard last, with its time
        self.looks_used: set[int] = set()  # processes that have written configs since their last look at the fence
        self.announcer: dict[Key, int] = {}  # the process that has announced a move of it last
        self.late_requests: dict[Key, list[int]] = {}  # requests that came after another run had taken the cluster
        self._kept: list[Process] = []  # so that no two of a history have one identity

    # The lock.

    def heard_fence(self, process: Process | None, state: State | None, *, raised: bool) -> None:
        if process is None or state is None:
            return
        self._kept.append(process)
        self.heard[id(process)] = (self.seconds, state.generation)
        self.looks_used.discard(id(process))
        if raised:
            self.raised_by[state.generation] = id(process)

    def _judge_record(self, process: Process, wanted: Write, before: State | None) -> None:
        """An announcement is made by who holds the cluster, of moves that it was approved."""
        process.written.append(("log", wanted.kind))
        if wanted.kind != "intent":
            return
        said = f"{process.run} announces"
        holder = before.lock.run.rpartition("/")[2] if before is not None and before.lock is not None else None
        if process.kind != "cancel":
            assert holder == process.run, f"{said}: the lock is held by {holder}"
        targets = {(topic, number): list(after) for topic, number, after in wanted.more["moves"]}
        self._kept.append(process)
        self.announced.setdefault(id(process), []).append((self.seconds, targets))
        self.announcer |= dict.fromkeys(targets, id(process))

    # Requests.

    def _judge_request(self, process: Process, request: Any, now: Image, sent_at: float) -> None:
        """Before it takes effect. `sent_at`: when the process last looked at its clock."""
        name = type(request).__name__
        said = f"{process.run} {process.kind} {name}"
        if name == "AlterPartitionReassignmentsRequest":
            asked = {(t.name, p.partition_index): p.replicas for t in request.topics for p in t.partitions}
            cancelled = [key for key, target in asked.items() if target is None]
            wanted = {key: list(target) for key, target in asked.items() if target is not None}
            self._judge_cancels(process, cancelled, now, said)
            if wanted:
                self._judge_moves(process, wanted, now, sent_at, said)
            process.written.append(("alter", "cancel" if cancelled else "move"))
        elif name == "ElectLeadersRequest":
            asked_keys = [(t.topic, number) for t in request.topic_partitions for number in t.partitions]
            moving = [key for key in asked_keys if key in self.controller.targets and not process.meanwhile]
            assert not moving, f"{said}: {moving} are being reassigned"
            process.written.append(("elect", ""))
        else:
            entities = ", ".join(config_changes(request))
            process.written.append(("config", entities))
            self._judge_fence(process, sent_at, f"{said} {entities}")

    def _judge_moves(
        self, process: Process, wanted: dict[Key, list[int]], now: Image, sent_at: float, said: str
    ) -> None:
        times = [at for at, targets in self.announced.get(id(process), ()) if wanted.items() <= targets.items()]
        assert times, f"{said}: {wanted} was not announced"
        assert sent_at - times[-1] <= SEND_SECONDS, f"{said}: sent {sent_at - times[-1]:.0f} s after its announcement"
        assert self.seconds - sent_at <= IDLE_SECONDS, f"{said}: on a connection that was closed"
        in_time = self.seconds - times[-1] <= SEND_SECONDS
        for key, target in wanted.items():
            assert len(set(target)) == len(target) > 0, f"{said}: {key} to {target}"
            assert set(target) <= process.registered, f"{said}: {target} with {process.registered} registered"
        if process.kind == "cancel":
            lists = [{key: list(move.before) for key, move in moves.items()} for moves in self.moves.values()]
            assert any(wanted.items() <= one.items() for one in lists), f"{said}: {wanted} was never recorded"
            return
        approved = self.moves[process.run]
        # Whoever stops a run waits for what it has announced.
        assert not (in_time and self.holder() != process.run), f"{said}: in time, and the lock was given away"
        assert not (in_time and process.run in self.cancelled), f"{said}: in time, and the cancel has ended"
        self._judge_papers(process, said)
        alone = self.strangers == process.strangers
        for key, target in wanted.items():
            assert key in approved, f"{said}: {key} was not approved"
            assert target == list(approved[key].after), f"{said}: {key} to {target} was not approved"
            self.requested.setdefault(process.run, set()).add(key)
            one = now.partitions.get(key)
            if self.holder() != process.run:
                self.late_requests[key] = target  # it was announced, and who has taken the cluster takes it back
            elif alone and one is not None:
                assert not one.moves or list(one.target) == target, f"{said}: {key} is on its way to {one.target}"
                at = list(one.replicas)
                same = one.moves or at == list(approved[key].before)
                assert same, f"{said}: {key} is at {at}, approved from {approved[key]}"
                left = [text for text in self._wanted(approved[key]) if text not in self._entries(f"topics/{key[0]}")]
                assert not left, f"{said}: {left} of {key} are not throttled"

    def _judge_cancels(self, process: Process, cancelled: list[Key], now: Image, said: str) -> None:
        """A run takes back only what another run has asked for, each partition once. People cancel approved moves.

        Of its own it takes back what it has asked for under a fence that has risen since, and what a person cancelled.
        """
        state = self.lock_topic.state
        raised_by = self.raised_by.get(state.generation) if state is not None else None
        assert len(set(cancelled)) == len(cancelled), f"{said}: {cancelled}"
        for key in cancelled:
            assert any(key in moves for moves in self.moves.values()), f"{said}: {key} is of no approved move"
            if process.kind == "cancel":
                continue
            one = now.partitions.get(key)
            own = self.moves[process.run].get(key) if process.run in self.moves else None
            asked = key in self.requested.get(process.run, set()) and own is not None
            if self.announcer.get(key) != raised_by or self._is_cancelled(process.run):
                continue
            if one is not None and one.moves and asked and self.strangers == process.strangers:
                by_others = any(key in keys for run, keys in self.requested.items() if run != process.run)
                assert by_others, f"{said}: {key} is what the run itself has requested"
                assert own is not None
                assert one.target != own.after, f"{said}: {key} is what the run itself has requested"

    def _is_cancelled(self, run: str) -> bool:
        return run in self.runs and (self.runs[run].folder / json_files.CANCELLED).exists()

    def _judge_fence(self, process: Process, sent_at: float, said: str) -> None:
        """Configs are written under a fence that their writer itself has raised, soon after a look for each request."""
        assert id(process) not in self.looks_used, f"{said}: without another look at the fence"
        self.looks_used.add(id(process))
        at, generation = self.heard.get(id(process), (-FOREVER, ""))
        assert self.raised_by.get(generation) == id(process), f"{said}: under a fence that another worker has raised"
        assert sent_at - at <= SEND_SECONDS, f"{said}: sent {sent_at - at:.0f} s after its look at the fence"
        assert self.seconds - sent_at <= IDLE_SECONDS, f"{said}: on a connection that was closed"

    def _judge_configs(self, process: Process, entity: str, before: Image, after: Image) -> None:
        """After it took effect."""
        said = f"{process.run} {process.kind} {entity}"
        self._judge_throttle(process, entity, before.config(entity), after.config(entity), said)

    def _copies(self, process: Process, key: Key) -> bool:
        """Whether a new replica of an approved move is being copied; as in the judge of clusters with ZooKeeper."""
        one = self.controller.image.partitions.get(key)
        if one is None or not one.moves or process.meanwhile:
            return False
        own = [moves for run, moves in self.moves.items() if process.run in (run, "janitor", "people")]
        return any(
            broker not in one.isr
            for move in (moves[key] for moves in own if key in moves)
            if one.target == move.after or self.strangers == process.strangers
            for broker in set(move.added) & set(one.target)
        )

    # Words, leases and ends.

    def _judge_words(self, words: str, process: Process, kind: str) -> None:
        assert words.strip(), f"{kind} of {process.run}: an error without a word"
        written = [what for what, _ in process.written]
        if "had changed nothing in the cluster" in words:
            assert "elect" not in written, f"{kind} of {process.run} says {words!r}"
            assert ("alter", "move") not in process.written, f"{kind} of {process.run} says {words!r}"
        if "Somebody else cancelled" in words:
            ours = set(self.moves[process.run])
            late = ours & self.late_requests.keys()
            assert self.meddled & ours or late, f"{kind} of {process.run} says {words!r}, and nobody did"
        if process.papers_of is not None:
            assert process.written == [], f"{kind} of {process.run} has written {process.written}"

    def _recorded_lease(self) -> dict[str, Any] | None:
        state = self.lock_topic.state
        if state is None or state.lease is None:
            return None
        first, last = state.lease.first_offset, state.lease.first_offset + state.lease.parts
        parts = [r.value or b"" for r in self.lock_topic.records if first <= r.offset < last and r.key == PART_KEY]
        with suppress(CorruptZnodeError, ValueError):
            found: dict[str, Any] = json.loads(unpack(state.lease.digest, parts))
            return {**found, "generation": state.lease.generation}
        return None

    def _lease_texts(self) -> dict[str, Any]:
        return lease_texts(self.folder / "runs" / "leases", self._recorded_lease())

    def _now(self, key: Key) -> Now:
        one = self.controller.image.partitions[key]
        return Now(one.replicas, set(one.isr), one.leader, one.moves)

    def cared_for(self) -> bool:
        """Whether a lease says whose throttle it is: an open one, or one after which it may yet be set late."""
        leases = self._lease_texts().values()
        kept = ("late_until", "left_behind", "left_before")
        return any(not one["released_at"] or any(map(one.get, kept)) for one in leases)

    def holder(self) -> str | None:
        state = self.lock_topic.state
        return None if state is None or state.lock is None else state.lock.run.rpartition("/")[2]

    def live(self) -> set[int]:
        return set(self.controller.live)

    def _entities(self) -> list[str]:
        return list(self.controller.image.configs)

    def _config(self, entity: str) -> dict[str, str]:
        return self.controller.image.config(entity)
