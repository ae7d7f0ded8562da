"""Maintenance of one broker on real brokers: demoted, restarted, and leading again what it led."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.planning.tables.result_tables import read_candidate
from support.runs.rebalance_run import InProcessRun
from support.runs.watched_cluster import WatchedCluster
from support.waiting import wait

LISTS = {0: (2, 3, 1), 1: (2, 1, 3), 2: (3, 2), 3: (1, 2)}


def test_a_broker_leads_again_after_its_restart_what_it_led_before_the_demote(
    cluster: LocalCluster,
    kafka: WatchedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh_topic_name: Callable[[], str],
) -> None:
    topic = fresh_topic_name()
    cluster.create_topic(topic, LISTS)
    cluster.produce(topic, dict.fromkeys(LISTS, 200_000))

    def leaders() -> dict[int, int]:
        return {number: found.leader for number, found in kafka.partitions(topic).items()}

    def is_registered() -> bool:
        with open_cluster(kafka.connection) as opened:
            return 2 in opened.read_view([topic]).brokers

    wait("each preferred leader leads", lambda: leaders() == {number: LISTS[number][0] for number in LISTS})
    demote = InProcessRun(tmp_path, cluster, monkeypatch, "demote")
    demote.plan(job="leaders", drain=[2], topics_in=[topic])
    assert demote.carry_out("leaders_only")["passed"] is True
    assert 2 not in leaders().values()

    cluster.stop_broker(2)
    back = InProcessRun(tmp_path, cluster, monkeypatch, "back")
    asked = {"job": "give_back", "topics_in": [topic]}
    try:
        wait("the broker is no longer registered", lambda: not is_registered())
        with pytest.raises(
            ClusterNotReadyError, match=r"broker 2: it is to lead \d+ partitions? again .* is not regis"
        ):
            back.plan(**asked)
    finally:
        cluster.start_broker(2)

    def is_planned() -> bool:
        with suppress(ClusterNotReadyError):
            back.plan(**asked)
            return True
        return False

    wait("broker 2 is in sync again", is_planned)
    assert json_files.read_json(back.folder, json_files.SNAPSHOT)["gives_back"]["run_id"] == "demote"
    assert back.carry_out("given")["passed"] is True
    assert sum(move.bytes_to_copy for move in read_candidate(back.folder, "given").moves) == 0
    assert kafka.lists(topic) == LISTS
    assert leaders() == {number: LISTS[number][0] for number in LISTS}
    kafka.delete(topic)
