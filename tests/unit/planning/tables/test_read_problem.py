"""What cannot be planned is refused with the numbers that make it impossible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_rebalance.errors import ArtifactError, PlanningError
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.tables.read_problem import read_problem
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, problem_of

RACKS = {1: "a", 2: "b", 3: "b"}


def refusal(brokers: Rows, partitions: Rows, **settings: Any) -> str:
    with pytest.raises(PlanningError) as refused:
        problem_of(brokers, partitions, **settings)
    assert "Nothing was planned" in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("settings", "texts"),
    [
        ({"job": "drain", "drain": [9]}, ["drain: broker 9 does not exist", "Brokers are 1, 2, 3"]),
        ({"job": "replace", "replace": {"8": 1}}, ["replace: broker 8 does not exist", "1, 2, 3"]),
        ({"job": "replace", "replace": {"1": 9}}, ["the new broker 9 is not registered", "1, 2, 3"]),
        ({"brokers_out": [7]}, ["brokers_out: broker 7 does not exist"]),
        ({"topics_in": ["paiments*", "orders"]}, ["'paiments*' matches none", "1 topics"]),
        ({"topics_out": ["*"]}, ["leaves none", "1 topics"]),
        ({"job": "replication_factor", "replication_factor": 4}, ["factor 4", "3 brokers"]),
        ({"job": "replication_factor", "replication_factor": 3}, ["factor 3", "2 racks"]),
        ({"job": "drain", "drain": [1]}, ["leaves 1 racks", "2 partitions", "orders-0"]),
        ({"job": "drain", "drain": [1, 2, 3]}, ["All 3 brokers"]),
    ],
)
def test_settings_that_fit_no_cluster_like_this_name_what_there_is(settings: dict[str, Any], texts: list[str]) -> None:
    text = refusal(broker_rows([1, 2, 3], RACKS), partition_rows([[1, 2], [1, 3]]), **settings)
    for expected in texts:
        assert expected in text


def test_a_drain_that_leaves_fewer_brokers_than_replicas_is_refused() -> None:
    text = refusal(broker_rows([1, 2, 3]), partition_rows([[1, 2, 3], [2, 3]]), job="drain", drain=[1])
    assert "leaves 2 brokers" in text
    assert "1 partitions" in text


def test_a_snapshot_without_brokers_or_partitions_is_refused() -> None:
    assert "no brokers" in refusal([], partition_rows([[1]]))
    assert "no partitions" in refusal(broker_rows([1]), [])


def test_lists_that_are_empty_or_name_a_broker_twice_are_refused() -> None:
    text = refusal(broker_rows([1]), partition_rows([[1], [1, 1]]))
    assert "orders-1 lists a broker twice (replicas [1, 1]). The same is wrong with 1 of 2 partitions" in text
    assert "orders-0 has no replicas" in refusal(broker_rows([1]), partition_rows([[], [1]]))


def test_a_broker_that_holds_replicas_but_is_not_in_the_table_is_named() -> None:
    text = refusal(broker_rows([1, 2]), partition_rows([[1, 7], [2, 1]]))
    assert "broker 7 holds replicas of 1 partitions" in text


def test_bytes_that_do_not_fit_the_disks_are_refused_with_both_figures() -> None:
    brokers = broker_rows([1, 2], disk_capacity_bytes={1: 10_000, 2: 10_000})
    text = refusal(brokers, partition_rows([[1], [2]], size=6000), job="drain", drain=[2])
    assert "12,000 bytes" in text
    assert "9,000 bytes" in text


def test_a_capacity_of_zero_is_refused_and_an_unknown_one_is_not() -> None:
    zero = broker_rows([1, 2], disk_capacity_bytes={1: 0, 2: 10})
    assert "disk_capacity_bytes of broker 1 is not above 0" in refusal(zero, partition_rows([[1]], size=1))
    unknown = broker_rows([1, 2], disk_capacity_bytes={2: 10})
    assert problem_of(unknown, partition_rows([[1]], size=1)).disk_capacity.tolist() == pytest.approx(
        [np.nan, 10], nan_ok=True
    )


BROKERS = pa.table({"broker": [1, 2]})
PARTITIONS = pa.table({"topic": ["t", "t"], "partition": [0, 1], "replicas": [[1], [2]], "size_bytes": [5, 6]})


def read(folder: Path, brokers: pa.Table, partitions: pa.Table) -> Any:
    pq.write_table(brokers, folder / "brokers.parquet")
    pq.write_table(partitions, folder / "partitions.parquet")
    return read_problem(folder, Settings())


def test_required_columns_alone_are_enough(tmp_path: Path) -> None:
    problem = read(tmp_path, BROKERS, PARTITIONS)
    assert problem.replicas.tolist() == [[0], [1]]
    assert np.isnan(problem.disk_capacity).all()
    assert not problem.rates.knows_in
    assert problem.movable.all()


def test_other_integer_widths_list_kinds_and_extra_columns_are_read(tmp_path: Path) -> None:
    wide = PARTITIONS.cast(
        pa.schema(
            [
                ("topic", pa.dictionary(pa.int32(), pa.string())),
                ("partition", pa.int16()),
                ("replicas", pa.large_list(pa.int64())),
                ("size_bytes", pa.float64()),
            ]
        )
    ).append_column("notes", pa.array(["x", "y"]))
    problem = read(tmp_path, BROKERS.cast(pa.schema([("broker", pa.int32())])), wide)
    assert problem.replicas.tolist() == [[0], [1]]
    assert problem.size_bytes.tolist() == [5, 6]


@pytest.mark.parametrize(
    ("table", "column", "values", "text"),
    [
        ("brokers", "broker", ["1", "2"], "column broker is string, not an integer"),
        ("brokers", "broker", [1, None], "column broker has 1 nulls"),
        ("brokers", "broker", [1, 1], "more than one row, first broker 1"),
        ("brokers", "broker", [1, -2], "-2, which is below 0"),
        ("brokers", "broker", [1, 2**31], "2147483648, which is above Kafka's largest id 2147483647"),
        ("brokers", "disk_capacity_bytes", [1.0, float("inf")], "disk_capacity_bytes holds inf, which is more than"),
        ("brokers", "nic_in_bytes_per_second", [1.0, -1e-9], "nic_in_bytes_per_second holds -1e-09, which is below 0"),
        ("brokers", "state", ["keep", "dead"], "column state holds 'dead', allowed are keep, new, drain"),
        ("partitions", "topic", ["t", None], "column topic has 1 nulls"),
        ("partitions", "topic", [1, 2], "column topic is int64, not text"),
        ("partitions", "partition", [3, 3], "more than one row, first t-3"),
        ("partitions", "replicas", ["1", "2"], "column replicas is string, not a list of integers"),
        ("partitions", "partition", [0, 2**40], "1099511627776, which is above Kafka's largest id"),
        ("partitions", "replicas", [[1], [-1]], "column replicas holds -1, which is no broker id"),
        ("partitions", "replicas", [[1], [2**31]], "2147483648, which is above Kafka's largest id"),
        ("partitions", "replicas", [[1], [None]], "nulls within its lists"),
        ("partitions", "replicas", [[1], None], "column replicas has 1 nulls"),
        ("partitions", "size_bytes", ["big", "small"], "column size_bytes is string, not a number"),
        ("partitions", "size_bytes", [1.0, float("inf")], "size_bytes holds inf, which is more than any cluster has"),
        ("partitions", "size_bytes", [1.0, float("-inf")], "size_bytes holds -inf, which is below 0"),
        ("partitions", "size_bytes", [1.0, 1e300], "size_bytes holds 1e+300, which is more than any cluster has"),
        ("partitions", "size_bytes", [1, 2**62], "column size_bytes holds 4.61169e+18, which is more than"),
        ("partitions", "bytes_in_per_second", [1.0, float("inf")], "bytes_in_per_second holds inf"),
        ("partitions", "isr", ["1", "2"], "column isr is string, not a list of integers"),
        ("partitions", "isr", [[1], [-1]], "column isr holds -1, which is no broker id"),
        ("partitions", "size_bytes", [1, -1], "column size_bytes holds -1, which is below 0"),
    ],
)
def test_a_column_that_cannot_be_used_is_named(
    tmp_path: Path, table: str, column: str, values: list[Any], text: str
) -> None:
    tables = {"brokers": BROKERS, "partitions": PARTITIONS}
    kept = tables[table].drop_columns([column]) if column in tables[table].column_names else tables[table]
    tables[table] = kept.append_column(column, pa.array(values))
    with pytest.raises(ArtifactError) as refused:
        read(tmp_path, **tables)
    assert text in str(refused.value)
    assert f"{table}.parquet" in str(refused.value)


def test_sizes_that_are_not_a_number_are_unknown(tmp_path: Path) -> None:
    sizes = pa.array([float("nan"), None], pa.float64())
    problem = read(tmp_path, BROKERS, PARTITIONS.drop_columns(["size_bytes"]).append_column("size_bytes", sizes))
    assert problem.unknown_sizes == 2
    assert problem.size_bytes.tolist() == [0, 0]


def test_sizes_whose_sum_no_cluster_holds_are_refused(tmp_path: Path) -> None:
    rows = range(200)
    table = pa.table({"topic": ["t"] * 200, "partition": rows, "replicas": [[1]] * 200, "size_bytes": [2**53] * 200})
    with pytest.raises(ArtifactError, match=r"together have 1\.80144e\+18 bytes"):
        read(tmp_path, BROKERS, table)


@pytest.mark.parametrize("column", ["topic", "partition", "replicas", "size_bytes"])
def test_a_missing_required_column_is_named(tmp_path: Path, column: str) -> None:
    with pytest.raises(ArtifactError, match=f"column {column} is missing"):
        read(tmp_path, BROKERS, PARTITIONS.drop_columns([column]))


def test_a_file_that_is_missing_or_no_parquet_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"brokers\.parquet cannot be read"):
        read_problem(tmp_path, Settings())
    (tmp_path / "brokers.parquet").write_bytes(b"not parquet")
    (tmp_path / "partitions.parquet").write_bytes(b"")
    with pytest.raises(ArtifactError, match=r"brokers\.parquet is not a Parquet file"):
        read_problem(tmp_path, Settings())


def test_a_file_that_was_damaged_anywhere_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    """Magic bytes, data page, column names, Thrift footer, Arrow's schema: each is damaged in another way."""
    read(tmp_path, BROKERS, PARTITIONS)
    path = tmp_path / "partitions.parquet"
    whole = path.read_bytes()
    texts = []
    for at in range(0, len(whole), 23):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :])
        try:
            read_problem(tmp_path, Settings())
        except ArtifactError as wrong:
            texts.append(str(wrong))
    assert texts
    assert all("partitions.parquet" in text and "\n" not in text for text in texts)
    path.write_bytes(whole[: len(whole) // 3] + whole[len(whole) // 3 + 20 :])
    with pytest.raises(ArtifactError, match=r"partitions\.parquet is not a Parquet file"):
        read_problem(tmp_path, Settings())


@pytest.mark.parametrize("column", ["topic", "isr"])
def test_a_column_that_is_there_twice_is_named(tmp_path: Path, column: str) -> None:
    names = ["topic", "partition", "replicas", "size_bytes", "isr", column]
    values = [["t"], [0], [[1]], [5], [[1]], ["t"]]
    table = pa.table([pa.array(value) for value in values], names=names)
    with pytest.raises(ArtifactError, match=f"there are 2 columns {column}"):
        read(tmp_path, BROKERS, table)


@pytest.mark.parametrize(("table", "column"), [("partitions", "topic"), ("brokers", "rack"), ("brokers", "state")])
def test_text_that_is_not_utf_8_is_refused_with_its_column(tmp_path: Path, table: str, column: str) -> None:
    tables = {"brokers": BROKERS, "partitions": PARTITIONS}
    latin = pa.array(["caf\u00e9".encode("latin-1")] * 2)
    kept = tables[table].select([name for name in tables[table].column_names if name != column])
    tables[table] = kept.append_column(column, pa.Array.from_buffers(pa.string(), 2, latin.buffers()))
    with pytest.raises(ArtifactError, match=f"{table}.parquet: column {column} holds text that is not UTF-8"):
        read(tmp_path, **tables)


def test_topics_are_kafkas_own_by_name_or_as_the_brokers_said_when_the_snapshot_was_taken() -> None:
    rows = [
        *partition_rows([[1]], topic="orders"),
        *partition_rows([[1]], topic="__consumer_offsets"),
        *partition_rows([[1]], topic="__of_a_later_kafka", kafkas_own=[True]),
    ]
    assert problem_of(broker_rows([1]), rows).kafkas_own == {"__consumer_offsets", "__of_a_later_kafka"}
