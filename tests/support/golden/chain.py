"""A recorded run through every task of `kafka_rebalance` on a simulated cluster, and all that it leaves behind.

The tasks' own functions are called in the Dag's order, as in `in_process_run`; the clock stands still but for sleeps.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import DownstreamTasksSkipped

from kafka_rebalance.admin.log_dirs import BrokerDisks, LogDir
from kafka_rebalance.documents import json_files
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning import planner
from kafka_rebalance.rebalance import report
from kafka_rebalance.rebalance.snapshot import take_snapshot
from kafka_rebalance.run import ledger
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.run_step import run_step
from support.airflow.approval_requests import APPROVAL as CANDIDATES
from support.golden.clock import stop_clocks
from support.golden.figures import figures_in
from support.golden.planning import (
    AFTER_APPROVAL,
    APPROVAL,
    DIGESTS,
    END,
    HISTORY,
    MIDWAY,
    PLAN,
    REPORT,
    RUN,
    SNAPSHOT,
    digest_entries,
    given_history,
    names_of,
    parquet_text,
    report_entries,
    without_pictures,
)
from support.golden.records import csv_text, document_text, given, lines_of
from support.runs.asked_run import answer_event, approval_context
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun

BEHIND = ("hold_throttle", "reassign", "release_throttle", "elect_leaders", "verify", "record")
EARLIER = "rejected_before"  # the id of the run before, which was rejected
IN_SNAPSHOT = ("nonce.json", "snapshot.json", "settings.json", "snapshot/", HISTORY)


class RecordedCluster(SimulatedCluster):
    """The cluster that a run starts from: sizes, log dirs, leaders, settings and brokers that are down as given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, start: Mapping[str, Any]) -> None:
        self._brokers = {int(broker): told for broker, told in start["brokers"].items()}
        self._rows = {
            TopicPartition(topic, row[0]): row for topic, told in start["topics"].items() for row in told["partitions"]
        }
        lists = {topic: {row[0]: row[1] for row in told["partitions"]} for topic, told in start["topics"].items()}
        racks = {broker: told["rack"] for broker, told in self._brokers.items()}
        super().__init__(monkeypatch, lists, start["controller"], racks)
        for topic, told in start["topics"].items():
            self.fake.put_json(f"/config/topics/{topic}", {"version": 1, "config": told["config"]})
        down = {broker for broker, told in self._brokers.items() if told.get("down")}
        for broker in down:
            self.fake.delete(f"/brokers/ids/{broker}")
        for tp, (_, replicas, _, _, *state) in self._rows.items():
            in_sync = [broker for broker in replicas if broker not in down]
            if state or in_sync != replicas:
                self.set_state(tp, **({"leader": in_sync[0], "isr": in_sync} | (state[0] if state else {})))
        for broker, told in self._brokers.items():
            dirs = (told.get("log_dirs") or {}).values()
            if dirs:
                self.disk_fractions[broker] = round(
                    1 - sum(free for _, free in dirs) / sum(all_ for all_, _ in dirs), 4
                )
        self.fake.writes.clear()

    def set_state(self, tp: TopicPartition, **changes: Any) -> None:
        path = f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state"
        self.fake.put_json(path, self.fake.json(path) | changes)

    def change(self, tp: TopicPartition, replicas: Sequence[int]) -> None:
        """Somebody else has moved the partition."""
        path = f"/brokers/topics/{tp.topic}"
        document = self.fake.json(path)
        document["partitions"][str(tp.partition)] = list(replicas)
        self.fake.put_json(path, document)
        self.set_state(tp, leader=replicas[0], isr=list(replicas))

    def _log_dirs(self, _: object, brokers: Collection[int], *, of_the_rest: bool = False) -> BrokerDisks:
        """A replica that is not in sync has half of its bytes."""
        held: dict[TopicPartition, dict[int, int]] = {}
        paths: dict[TopicPartition, dict[int, str]] = {}
        for tp in self._rows:
            if f"/brokers/topics/{tp.topic}" not in self.fake.znodes:
                continue
            isr = self.fake.json(f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state")["isr"]
            for broker in self.replicas(tp.topic).get(tp.partition, ()):
                if broker in brokers:
                    size = self._rows[tp][2]
                    held.setdefault(tp, {})[broker] = size if broker in isr else size // 2
                    dirs = sorted(self._dirs_of(broker))
                    paths.setdefault(tp, {})[broker] = dirs[(tp.partition + broker) % len(dirs)]
        log_dirs = {
            broker: tuple(LogDir(path, *told) for path, told in self._dirs_of(broker).items()) for broker in brokers
        }
        return BrokerDisks(held, log_dirs, paths)

    def _dirs_of(self, broker: int) -> Mapping[str, tuple[int, int] | tuple[()]]:
        return self._brokers[broker].get("log_dirs") or {"/data": ()}

    def _offsets(
        self, offset: int, _: object, partitions: Collection[TopicPartition], *, of_the_rest: bool = False
    ) -> dict[TopicPartition, int]:
        """The first offset is 0, as there; the last as given."""
        return {tp: self._rows[tp][3] if offset else offset for tp in partitions}


class RecordedRun(SimulatedRun):
    """A run whose approval is asked and answered by the real operator."""

    def __init__(
        self,
        folder: Path,
        cluster: RecordedCluster,
        monkeypatch: pytest.MonkeyPatch,
        start: Mapping[str, Any],
        run_id: str,
        midway: Callable[[], None],
    ) -> None:
        super().__init__(folder, cluster, monkeypatch, run_id)
        monkeypatch.setattr(HITLOperator, "execute", lambda operator, context: None)
        self._start, self._midway, self._looks = start, midway, 0
        self.policy_file.write_text(json.dumps(start["policy"]))  # JSON is YAML
        capacities = {broker: told.get("capacities") for broker, told in start["brokers"].items()}
        extra = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "broker_capacities": {broker: told for broker, told in capacities.items() if told},
        }
        connection = {"conn_type": "kafka_zookeeper", "host": cluster.zookeeper, "extra": extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(connection))
        self.asked = ""

    def plan_as_given(self, run: str) -> None:
        """Snapshot, plan and report."""
        instance = SimpleNamespace(xcom_push=self.xcom.__setitem__)
        run_step(
            take_snapshot,
            self.dag_run,
            {"kafka_conn_id": CONNECTION, **self._start["params"]},
            ti=instance,
        )
        settings = Settings.from_mapping(json_files.read_json(self.folder, json_files.SETTINGS))
        history = given_history(run, self.folder)
        planner.run(self.folder / json_files.SNAPSHOT_FOLDER, self.folder, settings, history=history)
        run_step(report.render_report, self.dag_run, str(self.folder))

    def ask(self) -> ApprovalOperator:
        """The request for an answer, as people see it."""
        operator = self._approve()
        operator.execute(self._context())
        self.asked = request_text(operator, names_of(self._start))
        return operator

    def answer(self, choice: str, at: float, throttle_bytes_per_second: int | None = None, note: Any = None) -> None:
        """What uma answers to the request; the decision comes as Airflow's XCom has it."""
        asked = self.ask()
        chosen = [option for option in asked.options if option.startswith(choice)]
        assert len(chosen) == 1, f"{choice} is not offered: {asked.options}"
        rate = throttle_bytes_per_second or asked.params["throttle_bytes_per_second"]
        self.take(self.event_of(chosen[0], at, rate, note))

    def event_of(self, option: str, at: float, rate: int, note: Any) -> dict[str, Any]:
        """What Airflow hands over when uma has answered."""
        user = self._start["policy"]["approvers"][0]
        form = {"throttle_bytes_per_second": rate, "note": note}
        return answer_event(option, user, datetime.fromtimestamp(at).astimezone(), **form)

    def take(self, event: dict[str, Any]) -> None:
        """The task resumes in another process, with an operator that has asked nothing."""
        with suppress(DownstreamTasksSkipped):
            self._approve().execute_complete(self._context(), event)
        self.decision = self.xcom["decision"]

    def _approve(self) -> ApprovalOperator:
        return ApprovalOperator(
            task_id="approve", approval=CANDIDATES, run_folder=str(self.folder), nonce=self.xcom["nonce"]
        )

    def _context(self) -> Any:
        return approval_context(self.dag_run, self.xcom, [EmptyOperator(task_id=name) for name in BEHIND])

    def follow(self, batch: int, **options: Any) -> Any:
        """The trigger's looks; at the third of the first batch, things are midway."""
        until = options.pop("until")

        def looked() -> bool:
            self._looks += 1
            if self._looks == 3:
                self._midway()
            return bool(until())

        return super().follow(batch, until=looked, **options)


def request_text(operator: Any, names: Sequence[str]) -> str:
    """What an approval asks: its buttons, its form, and the figures of its subject and its text."""
    form = {name: operator.params.get_param(name) for name in operator.params}
    words = ("title", "description")
    return lines_of(
        [
            {"options": operator.options},
            *(
                {
                    "field": name,
                    "value": field.value,
                    **{key: field.schema[key] for key in field.schema if key not in words},
                }
                for name, field in form.items()
            ),
            {"text": figures_in(operator.subject, names)},
            {"text": figures_in(str(operator.body), names)},
        ]
    )


Bundles = dict[str, dict[str, str]]


def carried_out(run: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bundles:
    """What the run leaves behind, by bundle: from the snapshot to the ledger's row, everything as given."""
    start, clock = given(run), stop_clocks(monkeypatch)
    without_pictures(monkeypatch)
    cluster = RecordedCluster(monkeypatch, start)
    stages: dict[str, str] = {}
    pages: dict[str, str] = {}

    def seen(stage: str, *names: str) -> None:
        for path in (made.folder / name for name in names):
            if path.exists():
                stages[f"{stage}/{path.name}"] = text_of(path)
        stages[f"{stage}/znodes"] = znodes_text(cluster, folder)
        noted = (path for path in sorted((folder / "runs" / json_files.LOCKS).rglob("*")) if path.is_file())
        stages.update({f"{stage}/{path.relative_to(folder / 'runs')}": text_of(path) for path in noted})

    def page(stage: str) -> None:
        pages[stage] = (made.folder / json_files.REPORT).read_text()

    def midway() -> None:
        report.write_report(made.folder)
        page(MIDWAY)
        seen(MIDWAY, *(f"{name}.json" for name in AFTER_APPROVAL), json_files.FOLLOWING)

    def another(run_id: str) -> RecordedRun:
        return RecordedRun(folder, cluster, monkeypatch, start, run_id, midway)

    if "outcomes" in start:
        for row in start["outcomes"]:
            another("any")
            at = datetime.fromisoformat(row["observed_at"])
            ledger.append(airflow_deployment(), "outcomes", CONNECTION, row["run_id"], at, [{**row, "observed_at": at}])
    if EARLIER in start:
        before = another(EARLIER)
        before.plan_as_given(run)
        before.answer("Reject", clock.now, note=start[EARLIER]["note"])
        clock.sleep(3600)
    made = another("one")
    made.plan_as_given(run)
    page(APPROVAL)
    clock.sleep(600)
    made.answer(at=clock.now, **start["answer"])
    made.hold()
    seen("held", json_files.THROTTLE)
    for topic, partition, replicas in start.get("moved_by_somebody_else", ()):
        cluster.change(TopicPartition(topic, partition), replicas)
    made.reassign()
    made.finish()
    page(END)
    files = files_below(folder / "runs", made.folder)
    plan, snapshot, rest = {}, {}, {}
    for name, text in files.items():
        into = snapshot if name.startswith(IN_SNAPSHOT) else plan if _is_of_the_plan(name) else rest
        into[name] = text
    rest["asked of Kafka"] = lines_of(
        [{"reassign": [[*tp, replicas] for tp, replicas in one.items()]} for one in cluster.requests]
        + [{"elect": one} for one in cluster.elections]
    )
    rest["znodes"] = znodes_text(cluster, folder)
    settings = json_files.read_json(made.folder, json_files.SETTINGS)
    bundles = {
        SNAPSHOT: snapshot,
        PLAN: plan,
        RUN: rest | stages,
        REPORT: {"request": made.asked, **report_entries(run, pages)},
        DIGESTS: digest_entries(made.folder, settings),
    }
    return {
        bundle: {name: text.replace(str(folder), "<folder>") for name, text in entries.items()}
        for bundle, entries in bundles.items()
    }


def _is_of_the_plan(name: str) -> bool:
    written = (
        *("moves/", "scores/", "candidates/", "loads/", "disk/", "proposals.json", "timings.json", "segments.json"),
        *("estimate.json", "rates.json", "rejection.json", "page.json", "reassignments/", "moves-", "brokers-"),
    )
    return name.startswith(written)


def files_below(root: Path, own: Path | None = None) -> dict[str, str]:
    """Every file below `runs_url`, by its name in the run's folder, or else below the root."""
    found = {}
    for path in sorted(root.rglob("*")):
        inside = own is not None and path.is_relative_to(own)
        name = str(path.relative_to(own if inside else root))
        told_elsewhere = (
            not inside and EARLIER in name and path.suffix != ".parquet" and path.name != json_files.DECISION
        )
        if path.is_dir() or path.name == json_files.REPORT or told_elsewhere:
            continue
        found[name] = text_of(path)
    return found


def text_of(path: Path) -> str:
    """What is compared of a file."""
    content = path.read_bytes()
    if path.suffix == ".parquet":
        return parquet_text(content)
    if path.suffix == ".csv":
        return csv_text(content.decode())
    if path.parent.name == json_files.REASSIGNMENTS:  # the moves once more
        return lines_of([{"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}])
    text = document_text(content.decode())
    return re.sub(r'"versions": \{[^}]*\}', '"versions": {}', text)  # of this package, and of Python


def znodes_text(cluster: RecordedCluster, folder: Path) -> str:
    """What stands in ZooKeeper of ours, and every throttle."""
    own = {path: znode.data for path, znode in cluster.fake.znodes.items() if path.startswith("/kafka_rebalance")}
    texts = {path: _lease(data, folder) if path.endswith("/lease") else data.decode() for path, data in own.items()}
    return lines_of([*map(list, sorted(texts.items())), *map(list, sorted(cluster.throttles().items()))])


def _lease(data: bytes, folder: Path) -> dict[str, Any]:
    """The record of the lease. Its compressed text names this machine's folder: of that the digest elsewhere."""
    record: dict[str, Any] = json.loads(data)
    packed = base64.b64decode(record["lease"])
    assert hashlib.sha256(packed).hexdigest() == record["digest"]
    anywhere = zlib.decompress(packed).replace(str(folder).encode(), b"<folder>")
    return record | {"lease": "compressed", "digest": hashlib.sha256(anywhere).hexdigest()}
