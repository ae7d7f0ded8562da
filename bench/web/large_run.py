"""A run under way with 1,000 brokers and 150,000 moves: its folder, by our own writers, and its rows in Airflow.

The lists are random, without a search, because a page costs the same with any moves. The planner computes the rest from
them: reasons, batches, scores, loads and disks.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from bench.clusters import FIRST_BROKER, Cluster, Size, make_cluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.pages.plots import BROKERS_SHOWN
from kafka_rebalance.planning.bounds.targets import leader_targets
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate, described_candidate
from kafka_rebalance.planning.planner import prepare, write_results
from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem, replication
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.search.frame import FoundLists, frame_of
from kafka_rebalance.planning.search.placement import spent
from kafka_rebalance.planning.tables.read_problem import write_snapshot

SIZE = Size(brokers=1000, racks=10, partitions=150_000, partitions_per_topic=12)
SHARES = {"light": 0.2, "balanced": 1.0}  # of the partitions: those that move a replica
DAG, CONNECTION, NONCE = "kafka_rebalance", "large", "0123456789abcdef0123456789abcdef"
CHOSEN = "balanced"
POLICY = {  # a usual one for a cluster of this size
    "approvers": ["uma"],
    "max_bytes_share": 1.0,
    "max_bytes": 10**18,
    "partitions_per_batch": 2000,
    "copies_per_broker": 50,
}


def _bytes(made: Cluster) -> int:
    return sum(row["size_bytes"] * len(row["replicas"]) for row in made.partitions)


class LargeRun:
    """The run's folder. `seconds` has the time of each step of writing it."""

    def __init__(self, root: Path) -> None:
        self.run_id = f"manual__2026-05-03T14:31:58+00:00_{uuid.uuid4().hex[:8]}"
        self.folder = root / CONNECTION / "run" / "1"
        self.seconds: dict[str, float] = {}

    def write(self) -> None:
        """Writes the snapshot, the plan, and the notes of a reassignment that is half done."""
        snapshot = self.folder / json_files.SNAPSHOT_FOLDER
        snapshot.mkdir(parents=True)
        made = make_cluster(SIZE, "add", seed=1)
        digest = write_snapshot(snapshot, made.brokers, made.partitions)
        policy = Policy.from_mapping(POLICY, CONNECTION)
        settings = policy.tighten(Settings(), cluster_bytes=_bytes(made), brokers=3)
        json_files.write_json(self.folder, json_files.NONCE, {"nonce": NONCE})
        json_files.write_json(self.folder, json_files.SNAPSHOT, self._snapshot(made, policy, settings, digest))
        problem = prepare(snapshot, settings)
        plans = list(self._plans(problem))
        write_results(self.folder, problem, plans)
        self._execute(next(plan for plan in plans if plan.candidate.name == CHOSEN), policy)

    def _snapshot(self, made: Cluster, policy: Policy, settings: Settings, digest: str) -> dict[str, Any]:
        return {
            "connection_id": CONNECTION,
            "cluster_id": "mZ4kT9yPQ0yRrS2v1uWx3A",
            "observed_at": "2026-05-03T14:32:10+00:00",
            "dag_id": DAG,
            "run_id": self.run_id,
            "requested_by": "olive",
            "reason": "150 brokers were added",
            "settings": settings.to_mapping(),
            "policy": policy.to_mapping(),
            "policy_digest": policy.digest,
            "snapshot_digest": digest,
            "brokers": len(made.brokers),
            "partitions": len(made.partitions),
            "cluster_bytes": _bytes(made),
            "nonce": NONCE,
        }

    def _plans(self, problem: Problem) -> Iterator[DescribedCandidate]:
        rng = np.random.default_rng(7)
        drawn = {name: moved(problem, rng, share) for name, share in SHARES.items()}
        drawn["leaders_only"] = problem.replicas.copy()
        drawn["leaders_only"][::3, :2] = problem.replicas[::3, 1::-1]
        for name, replicas in drawn.items():
            began = time.monotonic()
            goal = goal_of(problem.settings, name)
            frame = frame_of(problem, goal, replication(replicas))
            targets, budget = leader_targets(problem, replicas), spent(problem, replicas)
            rules = ((np.arange(len(replicas)), frame.rule),)
            placed = FoundLists(
                replicas, replicas, goal, rules, frame.wanted, frame.targets, targets, frame.scale, budget
            )
            yield described_candidate(problem, name, placed)
            self.seconds[name] = time.monotonic() - began

    def _execute(self, plan: DescribedCandidate, policy: Policy) -> None:
        """Writes the files of an approved run: half of the batches are done, one is under way."""
        candidate = plan.candidate
        half, now = len(candidate.batches) // 2, datetime.now(UTC).isoformat(timespec="seconds")
        decision = {
            "choice": candidate.name,
            "digest": candidate.digest,
            "policy_digest": policy.digest,
            "approved_by": {"id": "uma", "name": "uma"},
            "approved_at": now,
            "note": "",
            "throttle_bytes_per_second": 50_000_000,
        }
        noted: list[dict[str, Any]] = [
            {
                "number": batch.number,
                "partitions": len(batch.moves),
                "bytes": sum(move.bytes_to_copy for move in batch.moves),
                "created_at": now,
                "finished_at": now if batch.number <= half else None,
                "state": "done" if batch.number <= half else "requested",
            }
            for batch in candidate.batches[: half + 1]
        ]
        copied, total = sum(entry["bytes"] for entry in noted[:half]), sum(m.bytes_to_copy for m in candidate.moves)
        done = sum(entry["partitions"] for entry in noted[:half])
        progress = {
            "updated_at": now,
            "state": "moving",
            "batch": half + 1,
            "batches": len(candidate.batches),
            "partitions_done": done,
            "partitions_total": len(candidate.moves),
            "bytes_copied": copied,
            "bytes_total": total,
            "bytes_per_second": 4.1e9,
            "eta_seconds": (total - copied) / 4.1e9,
            "this_batch": {
                "partitions_done": 0,
                "partitions_total": noted[half]["partitions"],
                "bytes_copied": 0,
                "bytes_total": noted[half]["bytes"],
            },
            "brokers": [
                {
                    "broker": FIRST_BROKER + number,
                    "received": copied // 1000,
                    "to_receive": total // 1000,
                    "sent": copied // 1000,
                    "to_send": total // 1000,
                    "received_per_second": 4.1e6,
                    "sent_per_second": 4.1e6,
                }
                for number in range(BROKERS_SHOWN)
            ],
            "brokers_total": SIZE.brokers,
            "phases": {"done": done, "copying": noted[half]["partitions"]},
            "anomalies": [],
        }
        for name, content in (
            (json_files.DECISION, decision),
            (json_files.BATCHES, {"batches": noted}),
            (json_files.PROGRESS, progress),
        ):
            json_files.write_json(self.folder, name, content)

    def record(self) -> None:
        """Adds the run to the database of this process's Airflow: its state, and the name of its folder."""
        from airflow.models.dagrun import DagRun
        from airflow.models.taskinstance import TaskInstance
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session
        from sqlalchemy import insert

        with create_session() as session:
            now = datetime.now(UTC)
            run = DagRun(dag_id=DAG, run_id=self.run_id, run_type="manual", state="running", run_after=now)
            session.add(run)
            session.flush()
            task = {"dag_id": DAG, "run_id": self.run_id, "task_id": "snapshot", "map_index": -1, "state": "success"}
            task |= {"pool": "default_pool", "try_number": 1, "max_tries": 0, "pool_slots": 1, "queue": "default"}
            session.execute(insert(TaskInstance).values(id=uuid.uuid4(), priority_weight=1, **task))
            for key, value in (("run_folder", str(self.folder)), ("nonce", NONCE)):
                session.add(
                    XComModel(
                        dag_run_id=run.id, dag_id=DAG, run_id=self.run_id, task_id="snapshot", map_index=-1, key=key,
                        value=value, timestamp=now,
                    )
                )  # fmt: skip


def moved(problem: Problem, rng: np.random.Generator, share: float) -> Ints:
    """[partition row, position] The lists. In `share` of the rows one replica is on another broker of its rack."""
    replicas = problem.replicas.copy()
    rows = rng.permutation(len(replicas))[: round(share * len(replicas))]
    position = rng.integers(replication(replicas)[rows])
    racks = np.array([str(rack) for rack in problem.racks])
    left: Bools = np.ones(len(rows), dtype=bool)
    while left.any():
        for rack in np.unique(racks):
            here = np.flatnonzero(left & (racks[problem.replicas[rows, position]] == rack))
            replicas[rows[here], position[here]] = rng.choice(np.flatnonzero(racks == rack), len(here))
        kept = replicas[rows]
        held = (kept == kept[np.arange(len(rows)), position][:, None]).sum(axis=1) > 1
        left &= held | (kept[np.arange(len(rows)), position] == problem.replicas[rows, position])
    return replicas
