"""Judges what a run writes and says by what must never happen, from ZooKeeper and the model of the controller alone."""

from __future__ import annotations

import json
from typing import Any

from kafka_rebalance.kafka.throttles import LIST_KEYS, THROTTLE_KEYS
from kafka_rebalance.model.candidate import Move
from support.documents.valid_documents import REQUEST
from support.histories.lost_leases import lease_texts
from support.histories.process import Process
from support.histories.tasks import Tasks
from support.kafka.controller_model import Key, ModelController
from support.runs.simulated_cluster import RATE, SimulatedCluster
from support.zookeeper.fake_zookeeper import ELECTION, REASSIGN, FakeZooKeeper

LOCK = "/kafka_rebalance/run"
STRANGERS_RATE = "777"


class Judge(Tasks):
    """What holds is read from the world's own attributes."""

    cluster: SimulatedCluster
    controller: ModelController
    foreign: dict[str, set[tuple[str, str]]]  # entries of lists that are not the runs', by entity
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
        entity = path.removeprefix("/config/")
        then = json.loads(before)["config"] if before else {}
        now = self.fake.json(path)["config"]
        changed = {key for key in {*then, *now} if then.get(key) != now.get(key)}
        if process.kind == "hold" and changed and process.run not in self.requested:
            self._judge_papers(process, said)
        assert changed <= set(THROTTLE_KEYS), f"{said}: {changed}"
        for key in changed & set(LIST_KEYS):
            gone = set(split(then.get(key))) - set(split(now.get(key)))
            alien = {text for text in gone if (key, text) in self.foreign.get(entity, ())}
            assert not alien, f"{said}: {alien} of somebody else are gone"
            for text in gone:
                tp = (entity.partition("/")[2], int(text.partition(":")[0]))
                assert not self._copies(process, tp), f"{said}: {text} is gone while {tp} copies"
        for key in changed - set(LIST_KEYS):
            if key in then and then[key] == STRANGERS_RATE:
                own = self.strangers == process.strangers
                assert not own or now.get(key) == str(RATE), f"{said}: the rate of somebody else is gone"

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

    def _lease_texts(self) -> dict[str, Any]:
        """The lease of each cluster: the latest, of its files and of what the cluster has."""
        return lease_texts(self.folder / "runs" / "leases", self.fake)

    def _judge_leases(self, before: dict[str, Any]) -> None:
        """What was there before the throttle is recorded once, or as strangers have set it since, and is never ours."""
        for name, now in self._lease_texts().items():
            then = before.get(name)
            if then and not then["released_at"] and then["run"] == now["run"]:
                for entity, key, value in [(e, k, v) for e, values in now["prior"].items() for k, v in values.items()]:
                    theirs = key not in LIST_KEYS and self.strangers and value in (STRANGERS_RATE, None)
                    known = then["prior"][entity][key]
                    anew = then.get("suspended_at") is not None  # nothing of it need stand
                    assert value == known or theirs or anew, f"{now['run']}: what was there before is recorded again"
            for entity, values in now["prior"].items():
                for key, value in values.items():
                    if key in LIST_KEYS:
                        own = {t for t in split(value) if (key, t) not in self.foreign.get(entity, ())}
                        assert not own, f"{now['run']}: {own} of {entity} are our own, not what was there before"
                    else:
                        assert value != str(RATE), f"{now['run']}: {key} of {entity} is our own rate"

    def _judge_success(self, run: str) -> None:
        """A verified end is the approved one."""
        for key, move in self.moves[run].items():
            document = self.fake.json(f"/brokers/topics/{key[0]}")
            state = self.fake.json(f"/brokers/topics/{key[0]}/partitions/{key[1]}/state")
            partition = str(key[1])
            assert document["partitions"][partition] == list(move.after), f"{run} is verified, and {key} is not there"
            assert set(state["isr"]) == set(move.after), f"{run} is verified, and {key} is not in sync"
            assert state["leader"] in self.live()
            assert not any(document.get(name, {}).get(partition) for name in ("adding_replicas", "removing_replicas"))
        if self.holder() != run:
            left = self.own_throttle()
            assert not left or any(lease["run"] != self.owner(run) for lease in self._open()), f"{run} verified: {left}"

    def _judge_cancelled(self, plan: dict[str, Any]) -> None:
        """What is said to be cancelled is whole: each list the recorded or the approved one, nothing in motion.

        What strangers had moved before it was asked for is not of the plan.
        """
        run = plan["run"].rpartition("/")[2]
        for topic, partition, *_ in plan["moves"]:
            key = (topic, partition)
            move = self.moves[run][key]
            document = self.fake.json(f"/brokers/topics/{key[0]}")
            replicas = document["partitions"][str(key[1])]
            assert replicas in (list(move.before), list(move.after)), f"{run} is cancelled, and {key} is at {replicas}"
            assert not any(document.get(name, {}).get(str(key[1])) for name in ("adding_replicas", "removing_replicas"))
        assert self.holder() != run, f"{run} is cancelled and holds the cluster"

    def _open(self) -> list[Any]:
        return [lease for lease in self._lease_texts().values() if not lease["released_at"]]

    def cared_for(self) -> bool:
        """Whether a lease says whose throttle it is."""
        return bool(self._open())

    def own_throttle(self) -> dict[str, Any]:
        """What is set and is nobody's but the runs'."""
        found: dict[str, Any] = {}
        for entity in self._throttled_entities():
            own = {one for one in self._pairs(entity) if one not in self.foreign.get(entity, ())}
            config = self.cluster.config(entity)
            own |= {(key, value) for key, value in config.items() if value == str(RATE)}
            if own:
                found[entity] = own
        return found

    def holder(self) -> str | None:
        if LOCK not in self.fake.znodes:
            return None
        run: str = self.fake.json(LOCK)["run"]
        return run.rpartition("/")[2]

    def owner(self, run: str) -> str:
        return f"kafka_rebalance/{run}"

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

    def _wanted(self, move: Move) -> list[tuple[str, str]]:
        if not move.added:
            return []
        partition = move.topic_partition.partition
        sides = zip(LIST_KEYS, (move.before, move.added), strict=True)
        return [(key, f"{partition}:{broker}") for key, brokers in sides for broker in brokers]

    def _throttled_entities(self) -> list[str]:
        return [f"{k}/{name}" for k in ("brokers", "topics") for name in self.fake.get_children(f"/config/{k}")]

    def _pairs(self, entity: str) -> list[tuple[str, str]]:
        config = self.cluster.config(entity) if f"/config/{entity}" in self.fake.znodes else {}
        return [(key, text) for key in LIST_KEYS for text in split(config.get(key))]

    _entries = _pairs

    def _asked(self) -> dict[Key, list[int]]:
        return {(e["topic"], e["partition"]): e["replicas"] for e in self.fake.json(REASSIGN)["partitions"]}

    def _named(self, path: str) -> set[Key]:
        return {(e["topic"], e["partition"]) for e in self.fake.json(path)["partitions"]}


def split(value: str | None) -> list[str]:
    return [text for text in (value or "").split(",") if text]
