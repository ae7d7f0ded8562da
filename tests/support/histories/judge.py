"""Judges what a run writes and says by what must never happen, from ZooKeeper and the model of the controller alone."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from kafka_rebalance.errors import CorruptZnodeError
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from support.documents.valid_documents import REQUEST
from support.histories.lost_leases import lease_texts
from support.histories.process import Process
from support.histories.verdicts import Now, Verdicts
from support.kafka.controller_model import Key, ModelController
from support.runs.simulated_cluster import SimulatedCluster
from support.zookeeper.fake_zookeeper import ELECTION, REASSIGN, FakeZooKeeper

LOCK = "/kafka_rebalance/run"


class Judge(Verdicts):
    cluster: SimulatedCluster
    controller: ModelController
    fake: FakeZooKeeper
    version: str

    def _judge_write(self, process: Process, call: str, path: str, before: bytes | None) -> None:
        """Design, 6 "Never", for one write of a run."""
        said = f"{process.run} {call} {path}"
        if process.kind == "cancel" and path in (REASSIGN, "/controller"):
            self._judge_cancel(call, path, said)
        elif path == REASSIGN:
            assert call == "create", f"{said}: the request is created, never set or deleted"
            self._judge_request(process, said)
        elif path == ELECTION:
            assert call == "create", said
            moving = [key for key in self._named(ELECTION) if key in self.controller.targets and not process.meanwhile]
            assert not moving, f"{said}: {moving} are being reassigned"
        elif path.startswith(("/config/topics/", "/config/brokers/")):
            assert call in ("create", "set"), said
            self._judge_config(process, path, before, said)
        else:
            assert path.startswith(("/config/changes/", LOCK.rpartition("/")[0])), f"{said}: not ours to write"

    def _judge_request(self, process: Process, said: str) -> None:
        data = self.fake.znodes[REASSIGN].data
        assert REQUEST.fullmatch(data), f"{said}: {data!r}"
        approved = self.moves[process.run]
        self._judge_papers(process, said)
        for entry in json.loads(data)["partitions"]:
            key, replicas = (entry["topic"], entry["partition"]), entry["replicas"]
            assert key in approved, f"{said}: {key} was not approved"
            assert replicas == list(approved[key].after), f"{said}: {key} to {replicas} was not approved"
            assert len(set(replicas)) == len(replicas) > 0
            assert set(replicas) <= process.registered, f"{said}: {replicas} with {process.registered} registered"
            if self.strangers == process.strangers:
                assert key not in self.controller.targets, f"{said}: {key} is on its way already"
            if self.strangers == process.strangers:
                now = self.cluster.replicas(key[0])[key[1]]
                assert now == list(approved[key].before), f"{said}: {key} is at {now}, approved from {approved[key]}"
            self.requested.setdefault(process.run, set()).add(key)
        assert self.holder() == process.run, f"{said}: the lock is held by {self.holder()}"
        if self.strangers == process.strangers:
            for entry in json.loads(data)["partitions"]:
                move = approved[entry["topic"], entry["partition"]]
                left = [text for text in self._wanted(move) if text not in self._entries(f"topics/{entry['topic']}")]
                assert not left, f"{said}: {left} of {move.topic_partition} are not throttled"

    def _judge_cancel(self, call: str, path: str, said: str) -> None:
        """Only what cancelling may do beside: below 2.4 both deletions, and requests for lists that were recorded."""
        assert call == "create" or (call == "delete" and self.version == "2.0"), said
        if call == "create":
            assert path == REASSIGN, said
            data = self.fake.znodes[REASSIGN].data
            assert REQUEST.fullmatch(data), f"{said}: {data!r}"
            recorded = [{key: list(move.before) for key, move in moves.items()} for moves in self.moves.values()]
            asked = self._asked()
            assert any(asked.items() <= lists.items() for lists in recorded), f"{said}: {asked} was never recorded"

    def _judge_config(self, process: Process, path: str, before: bytes | None, said: str) -> None:
        then = json.loads(before)["config"] if before else {}
        self._judge_throttle(process, path.removeprefix("/config/"), then, self.fake.json(path)["config"], said)

    def _judge_words(self, words: str, process: Process, kind: str) -> None:
        """An error that says that its try has changed nothing is true."""
        assert words.strip(), f"{kind} of {process.run}: an error without a word"
        kept = [write for write in process.written if write[1] != LOCK.rpartition("/")[0]]
        if "had changed nothing in the cluster" in words:
            requested = [write for write in kept if write[1] in (REASSIGN, ELECTION)]
            assert not requested, f"{kind} of {process.run} says {words!r} and has written {requested}"
        if "No further move was requested" in words or "No move was requested" in words:
            assert ("create", REASSIGN) not in kept, f"{kind} of {process.run} says {words!r}"
        if "Somebody else cancelled" in words:
            assert self.meddled & set(self.moves[process.run]), (
                f"{kind} of {process.run} says {words!r}, and nobody did"
            )
        if process.papers_of is not None:
            assert kept == [], f"{kind} of {process.run} has written {kept} by the files of {process.papers_of}"

    def _recorded_lease(self) -> dict[str, Any] | None:
        with suppress(CorruptZnodeError):
            record = ZooKeeperLock(self.fake).read_lease()  # type: ignore[arg-type]
            return None if record is None else {**json.loads(record.text), "generation": record.generation}
        return None

    def _lease_texts(self) -> dict[str, Any]:
        return lease_texts(self.folder / "runs" / "leases", self._recorded_lease())

    def _now(self, key: Key) -> Now:
        document = self.fake.json(f"/brokers/topics/{key[0]}")
        state = self.fake.json(f"/brokers/topics/{key[0]}/partitions/{key[1]}/state")
        marks = [document.get(name, {}).get(str(key[1])) for name in ("adding_replicas", "removing_replicas")]
        return Now(tuple(document["partitions"][str(key[1])]), set(state["isr"]), state["leader"], any(marks))

    def holder(self) -> str | None:
        if LOCK not in self.fake.znodes:
            return None
        run: str = self.fake.json(LOCK)["run"]
        return run.rpartition("/")[2]

    def live(self) -> set[int]:
        return {int(name) for name in self.fake.get_children("/brokers/ids")}

    def _copies(self, process: Process, key: Key) -> bool:
        """Whether a new replica of the run's move of this partition (the janitor's: of any run's) is in what the
        controller does or is asked for, and is not in sync. What strangers ask for counts unless the process could not
        have seen it.
        """
        path = f"/brokers/topics/{key[0]}/partitions/{key[1]}/state"
        if path not in self.fake.znodes:
            return False
        isr = self.fake.json(path)["isr"]
        lists = [
            self.controller.targets.get(key, []),
            (self._asked() if REASSIGN in self.fake.znodes else {}).get(key, []),
        ]
        own = [moves for run, moves in self.moves.items() if process.run in (run, "janitor", "people")]
        return any(
            broker not in isr
            for move in (moves[key] for moves in own if key in moves)
            for towards in lists
            if towards == list(move.after) or self.strangers == process.strangers
            for broker in set(move.added) & set(towards)
        )

    def _entities(self) -> list[str]:
        return [f"{k}/{name}" for k in ("brokers", "topics") for name in self.fake.get_children(f"/config/{k}")]

    def _config(self, entity: str) -> dict[str, str]:
        return self.cluster.config(entity)

    def _asked(self) -> dict[Key, list[int]]:
        return {(e["topic"], e["partition"]): e["replicas"] for e in self.fake.json(REASSIGN)["partitions"]}

    def _named(self, path: str) -> set[Key]:
        return {(e["topic"], e["partition"]) for e in self.fake.json(path)["partitions"]}
