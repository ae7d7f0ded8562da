"""A metrics server's rates of topics: in the snapshot's folder, and as a plan uses them beside the ledger's samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_rebalance.documents.proposals import RatesLeftOut
from kafka_rebalance.errors import ArtifactError, SettingsError
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import prepare, run
from kafka_rebalance.planning.problem.arrays import Floats, Problem
from kafka_rebalance.planning.tables.history import (
    EXISTING_SCHEMA,
    SAMPLES_SCHEMA,
    TOPIC_RATES,
    HourlyRates,
    aggregated,
    in_worst_hour,
    planned_with,
    read_topic_rates,
    write_history,
    write_topic_rates,
    write_unread,
)
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from support.documents.as_in_a_file import in_json
from support.plans.small_snapshots import broker_rows, partition_rows
from unit.planning.tables.test_worst_hour import MONDAY, NOON, TUESDAY_3, Rate, at_noon, on_tuesday, sampled

FIRST = int(MONDAY.timestamp()) // 3600
WEEKS_2 = 2 * 168
LEFT_OUT = RatesLeftOut(without_topic=1, unknown_topics=2, unknown_first=("gone", "old"))


def hourly(**rates: Rate) -> HourlyRates:
    """Each topic's rate in an hour of the week, for two weeks from Monday on."""
    found = [[float(rate(hour % 168)) for hour in range(WEEKS_2)] for _, rate in sorted(rates.items())]
    return HourlyRates(tuple(sorted(rates)), FIRST, np.array(found), LEFT_OUT)


def snapshot(folder: Path, **topics: list[int]) -> Path:
    """Topics with partitions of these sizes."""
    rows = [
        {**row, "size_bytes": size}
        for topic, sizes in topics.items()
        for row, size in zip(partition_rows([[1, 2]] * len(sizes), topic=topic), sizes, strict=True)
    ]
    write_snapshot(folder, broker_rows([1, 2, 3]), rows)
    return folder


def history(folder: Path, *samples: list[dict[str, Any]]) -> bytes:
    rows = pa.Table.from_pylist([row for some in samples for row in some], schema=SAMPLES_SCHEMA)
    keys = sorted({(row["topic"], row["partition"]) for some in samples for row in some})
    existing = [{"topic": topic, "partition": partition} for topic, partition in keys]
    found = aggregated(rows, pa.Table.from_pylist(existing, schema=EXISTING_SCHEMA))
    return write_history(folder, in_worst_hour(found, read_topic_rates(folder)), 15, [])


def planned(folder: Path, content: bytes | None = None, **settings: Any) -> Problem:
    return planned_with(prepare(folder, Settings.from_mapping(settings)), folder, content, "history")


def rates(problem: Problem) -> Floats:
    assert problem.rates.knows_in
    return problem.rates.bytes_in


def test_rates_are_read_as_they_were_written(tmp_path: Path) -> None:
    found = hourly(audit=lambda hour: hour, orders=at_noon)
    found.rates[1, :3] = np.nan
    write_topic_rates(tmp_path, found)
    read = read_topic_rates(tmp_path)
    assert (read.problem, read.left_out, read.topics) == (None, LEFT_OUT, ("audit", "orders"))
    assert read.hours.tolist() == [336, 333]
    assert (read.first_at / 3.6e9 - FIRST).tolist() == [0, 3], "an hour begins here"
    assert (read.last_at / 3.6e9 - FIRST).tolist() == [336, 336], "and the last ends here"
    assert read.p95[0] == pytest.approx(np.quantile(np.arange(168), 0.95), abs=1.0)
    assert read.by_hour[0].tolist() == list(range(168))
    assert read.knows_hours.tolist() == [True, False]
    assert read.by_hour[1].tolist() == [0.0] * 168, "one week is not enough for the first hours"
    assert read.hour_totals().tolist() == list(range(168))
    before = (tmp_path / TOPIC_RATES).read_bytes()
    write_topic_rates(tmp_path, found)
    assert (tmp_path / TOPIC_RATES).read_bytes() == before


def test_an_hour_of_the_week_is_that_of_utc_also_if_the_rates_begin_within_a_week(tmp_path: Path) -> None:
    whole = hourly(orders=on_tuesday)
    later = HourlyRates(whole.topics, FIRST + 5, np.roll(whole.rates, -5, axis=1), LEFT_OUT)
    write_topic_rates(tmp_path, later)
    assert read_topic_rates(tmp_path).by_hour[0].argmax() == TUESDAY_3


def test_without_a_file_nothing_changes_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    assert read_topic_rates(tmp_path) is None
    problem = prepare(snapshot(tmp_path, orders=[1]), Settings())
    assert planned_with(problem, tmp_path, None, "history") is problem
    (tmp_path / TOPIC_RATES).write_bytes(b"PAR1")
    with pytest.raises(ArtifactError, match=TOPIC_RATES):
        read_topic_rates(tmp_path)
    write_history(
        tmp_path, in_worst_hour(aggregated(SAMPLES_SCHEMA.empty_table(), EXISTING_SCHEMA.empty_table())), 0, []
    )
    (tmp_path / TOPIC_RATES).write_bytes((tmp_path / "history/part-0.parquet").read_bytes())
    with pytest.raises(ArtifactError, match="is not what a snapshot writes"):
        read_topic_rates(tmp_path)


@pytest.mark.parametrize("rate", [-1.0, np.nan, np.inf])
def test_a_file_with_a_rate_by_hour_that_is_none_is_refused(tmp_path: Path, rate: float) -> None:
    write_topic_rates(tmp_path, hourly(orders=at_noon))
    table = pq.read_table(tmp_path / TOPIC_RATES)
    bad = pa.array([[rate] * 168])
    place = table.schema.get_field_index("hourly_bytes_in_per_second")
    pq.write_table(table.set_column(place, "hourly_bytes_in_per_second", bad), tmp_path / TOPIC_RATES)
    with pytest.raises(ArtifactError, match="is not what a snapshot writes"):
        read_topic_rates(tmp_path)


def test_a_topics_rate_spreads_as_the_ledger_says_else_as_sizes_do(tmp_path: Path) -> None:
    snapshot(tmp_path, orders=[100, 100, 300], audit=[10, 30], empty=[0, 0])
    write_topic_rates(tmp_path, hourly(**dict.fromkeys(("orders", "audit", "empty"), lambda hour: 100.0)))
    # The ledger knows two partitions of orders, 1 : 3; the third has three times the size, so three times their mean.
    samples = [sampled(0, lambda hour: 10, hours=48), sampled(1, lambda hour: 30, hours=48)]
    problem = planned(tmp_path, history(tmp_path, *samples))
    assert rates(problem).tolist() == pytest.approx([25, 75, 50, 50, 10, 30, 60])
    told = in_json(problem.rates.history)
    assert told["partitions"] == {"history": 0, "snapshot": 0, "topic": 0, "cluster": 0}
    assert told["metrics_server"] == {
        "digest": read_topic_rates(tmp_path).digest,
        "problem": None,
        "days": 14.0,
        "first_at": "2026-05-04T00:00:00+00:00",
        "last_at": "2026-05-18T00:00:00+00:00",
        "topics": 3,
        "short_topics": 0,
        "partitions": 7,
        "share_of_partitions": 1.0,
        "share_of_bytes": 1.0,
        "left_out": {
            "without_topic": 1,
            "unknown_topics": 2,
            "unknown_first": ["gone", "old"],
            "no_rate_topics": 0,
            "no_rate_first": [],
        },
    }


def test_the_snapshots_own_rates_are_parts_of_the_servers_and_count_for_topics_that_it_does_not_have(
    tmp_path: Path,
) -> None:
    own = {"orders": [10.0, 30.0], "audit": [7.0, 7.0]}
    rows = [
        row
        for topic, known in own.items()
        for row in partition_rows([[1, 2], [2, 3]], topic=topic, bytes_in_per_second=known)
    ]
    write_snapshot(tmp_path, broker_rows([1, 2, 3]), rows)
    write_topic_rates(tmp_path, hourly(orders=lambda hour: 100))
    problem = planned(tmp_path)
    assert rates(problem).tolist() == pytest.approx([7, 7, 25, 75])
    assert problem.rates.history.partitions.snapshot == 2


def test_topics_that_the_server_does_not_have_are_the_ledgers_or_estimated(tmp_path: Path) -> None:
    snapshot(tmp_path, orders=[100, 100], audit=[50, 50], young=[10], unseen=[100])
    found = hourly(audit=lambda hour: 8, young=lambda hour: 999)
    found.rates[1, 23:] = np.nan  # less than a day
    write_topic_rates(tmp_path, found)
    content = history(tmp_path, *(sampled(number, lambda hour: 10, hours=48) for number in (0, 1)))
    problem = planned(tmp_path, content)
    # By size from all that is known: 28 bytes a second of 300 bytes.
    assert rates(problem).tolist() == pytest.approx([4, 4, 10, 10, 100 * 28 / 300, 10 * 28 / 300])
    told = problem.rates.history
    assert (told.partitions.history, told.partitions.cluster) == (2, 2)
    assert (told.share_of_bytes, told.metrics_server.share_of_bytes) == (0.4878, 0.2439)
    assert (told.metrics_server.topics, told.metrics_server.short_topics) == (1, 1)


def test_the_worst_hour_is_that_of_the_servers_topics_and_the_ledgers_others_together(tmp_path: Path) -> None:
    snapshot(tmp_path, orders=[100], audit=[100])
    # Alone each has another hour; orders of the ledger would have noon, which the server does not show.
    write_topic_rates(tmp_path, hourly(audit=on_tuesday))
    ledger = sampled(0, at_noon), [{**row, "topic": "audit"} for row in sampled(0, lambda hour: 500 * (hour == 5))]
    problem = planned(tmp_path, history(tmp_path, *ledger), even_at_worst_hour=True)
    assert in_json(problem.rates.history)["worst_hour"] == {"hour": NOON, "weeks": 2.0, "samples": 2}
    assert rates(problem).tolist() == pytest.approx([10.0, 100.0])
    write_topic_rates(tmp_path, hourly(audit=lambda hour: 200 * (hour == TUESDAY_3)))
    problem = planned(tmp_path, history(tmp_path, *ledger), even_at_worst_hour=True)
    assert problem.rates.history.worst_hour.hour == TUESDAY_3
    assert rates(problem).tolist() == pytest.approx([200.0, 10.0])


def test_the_server_alone_can_tell_the_worst_hour(tmp_path: Path) -> None:
    snapshot(tmp_path, orders=[100, 300])
    with pytest.raises(SettingsError, match="the ledger's samples or a metrics server"):
        run(tmp_path, tmp_path / "out", Settings(even_at_worst_hour=True))
    write_topic_rates(tmp_path, hourly(orders=on_tuesday))
    asked = planned(tmp_path, even_at_worst_hour=True)
    assert rates(asked).tolist() == pytest.approx([17.5, 52.5])
    assert asked.rates.history.worst_hour.hour == TUESDAY_3
    assert rates(planned(tmp_path)).tolist() == pytest.approx([2.5, 7.5]), "else the 95th percentile"
    run(tmp_path, tmp_path / "out", Settings(even_at_worst_hour=True))
    assert "metrics_server" in (tmp_path / "out" / "proposals.json").read_text()


def test_a_server_that_could_not_be_read_leaves_the_ledgers_rates_and_its_reason(tmp_path: Path) -> None:
    snapshot(tmp_path, orders=[100, 100])
    write_unread(tmp_path, "The metrics server http://vm:8428 cannot be read (HTTP 503).")
    content = history(tmp_path, *(sampled(number, lambda hour: 10, hours=48) for number in (0, 1)))
    problem = planned(tmp_path, content)
    assert rates(problem).tolist() == [10.0, 10.0]
    told = problem.rates.history.metrics_server
    assert told.problem == "The metrics server http://vm:8428 cannot be read (HTTP 503)."
    assert (told.topics, told.partitions, told.first_at) == (0, 0, None)
    assert not planned(tmp_path).rates.knows_in, "neither says anything, so nothing is known"
