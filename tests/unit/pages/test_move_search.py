"""A candidate's moves in columns: the digest, the counts, and what a search finds, as of the same moves as objects."""

from __future__ import annotations

import csv
import io
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import InputError
from kafka_rebalance.model.candidate import Move, candidate_digest
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.pages.tables import (
    MOST_GROUPS,
    OTHER,
    PAGE_ROWS,
    SORTS,
    BrokerChange,
    Load,
    MovesPage,
    MoveTable,
    Query,
    brokers_csv,
)
from kafka_rebalance.planning.tables.result_tables import moves_digest, moves_in
from support.documents import report_samples as samples
from support.documents.built_report import summary_of
from support.plans.move_tables import move_table

TOPICS = ("orders", "Payments.eu", "=cmd|x!A1", "-minus", samples.HOSTILE, "zahlungen.für.alle", "orders-12")
REASONS = (
    "broker 3 has 150 % of its share of bytes on disk, broker 7 40 %: 3.10 GiB go",
    "broker 12 has 131 % of its share of bytes on disk, broker 3 many times: 900 MiB go",
    "makes room on broker 5 for what other moves bring there; broker 5 has 99 % of its share of replicas, broker 6 "
    "98 %: 1 replica goes",
    "makes up for leaders that other moves give to broker 5; broker 5 has 99 % of its share of leaders, broker 6 98 %: "
    "1 leader goes",
    "empties broker 4",
    "",
)
replicas = st.lists(st.integers(0, 20), min_size=1, max_size=4, unique=True).map(tuple)
moves_of_any_kind = st.lists(
    st.builds(
        Move,
        st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 300)),
        replicas,
        replicas,
        st.integers(0, 10**13),
        st.integers(0, 30),
        st.sampled_from(REASONS),
    ),
    max_size=40,
    unique_by=lambda move: move.topic_partition,
).map(tuple)


def many(count: int = 750) -> tuple[Move, ...]:
    drawn = random.Random(3)
    return tuple(
        Move(
            TopicPartition(drawn.choice(TOPICS), number),
            tuple(drawn.sample(range(20), 3)),
            tuple(drawn.sample(range(20), 3)),
            drawn.randrange(10**9),
            drawn.randrange(1, 40),
            drawn.choice(REASONS),
        )
        for number in range(count)
    )


MOVES = many()


def search(text: str = "", sort: str = "bytes", moves: tuple[Move, ...] = MOVES, **more: int) -> MovesPage:
    return MoveTable(move_table(moves)).search(Query("balanced", sort, text, **more))


@given(moves_of_any_kind)
def test_the_digest_of_columns_is_that_of_the_moves(moves: tuple[Move, ...]) -> None:
    table, settings = move_table(moves), {"tolerance": 0.1, "drain": [3], "note": "ü"}
    assert moves_digest("light", "5" * 64, settings, table) == candidate_digest("light", "5" * 64, settings, moves)
    assert moves_in(table) == moves


@given(moves_of_any_kind)
def test_the_summary_of_columns_is_that_of_the_moves(moves: tuple[Move, ...]) -> None:
    assert MoveTable(move_table(moves)).summary() == summary_of(moves)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", lambda move: True),
        ("PAYMENTS", lambda move: "payments" in str(move.topic_partition).lower()),
        ("orders-12-1", lambda move: "orders-12-1" in str(move.topic_partition)),
        ("für", lambda move: "für" in str(move.topic_partition)),
        ("broker:7", lambda move: 7 in (*move.before, *move.after)),
        ("empties", lambda move: "empties" in move.reason),
        ("orders empties", lambda move: "orders" in str(move.topic_partition) and "empties" in move.reason),
        (
            "12",
            lambda move: (
                12 in (*move.before, *move.after)
                or re.search(r"(?<!\d)12(?!\d)", str(move.topic_partition)) is not None
            ),
        ),
        ("9" * 150, lambda move: False),
        (r"(.*", lambda move: "(.*" in str(move.topic_partition)),
        ("<script>", lambda move: "<script>" in str(move.topic_partition)),
    ],
)
def test_a_search_finds_by_topic_partition_broker_and_reason(text: str, holds: object) -> None:
    wanted = [move for move in MOVES if holds(move)]  # type: ignore[operator]
    page = search(text)
    assert page.found == len(wanted)
    assert page.found_bytes == sum(move.bytes_to_copy for move in wanted)
    assert page.total == len(MOVES)
    assert set(page.moves) <= set(wanted)


@pytest.mark.parametrize("sort", SORTS)
def test_all_pages_together_are_all_moves_in_the_order_asked_for(sort: str) -> None:
    first = search(sort=sort)
    assert first.pages == -(-len(MOVES) // PAGE_ROWS)
    found = [move for page in range(1, first.pages + 1) for move in search(sort=sort, page=page).moves]
    assert len(found) == len(set(found)) == len(MOVES)
    key = {
        "bytes": lambda move: (-move.bytes_to_copy, move.topic_partition),
        "partition": lambda move: move.topic_partition,
        "batch": lambda move: (move.batch, -move.bytes_to_copy, move.topic_partition),
    }.get(sort)
    if key is not None:
        assert found == sorted(MOVES, key=key)
    assert search(sort=sort, page=99_999).moves == search(sort=sort, page=first.pages).moves


def test_moves_are_grouped_by_their_reason_without_its_figures_and_a_group_is_a_filter() -> None:
    page = search()
    by_text = {group.text: group for group in page.groups}
    assert set(by_text) == {
        "evens out bytes on disk",
        "makes room for what other moves bring",
        "empties broker 4",
        "none given",
    }
    assert [group.moves for group in page.groups] == sorted((group.moves for group in page.groups), reverse=True)
    for group in page.groups:
        only = search(group=group.number)
        assert (only.found, only.found_bytes) == (group.moves, group.bytes)
    emptied = search(group=by_text["empties broker 4"].number)
    assert {move.reason for move in emptied.moves} == {"empties broker 4"}
    assert search(group=99).found == 0


def test_many_reasons_are_few_groups() -> None:
    moves = tuple(
        Move(TopicPartition("orders", number), (1,), (2,), 1, 1, f"empties broker {number % 40}")
        for number in range(400)
    )
    groups = search(moves=moves).groups
    assert len(groups) == MOST_GROUPS
    assert groups[-1].text == OTHER
    assert sum(group.moves for group in groups) == 400


def test_a_candidate_that_moves_nothing_has_one_empty_page() -> None:
    page = search("orders", moves=())
    assert (page.found, page.pages, page.moves, page.groups) == (0, 1, (), ())
    assert len("".join(MoveTable(move_table(())).csv()).splitlines()) == 1


def test_every_move_is_in_the_csv_and_no_cell_begins_like_a_formula() -> None:
    rows = list(csv.DictReader(io.StringIO("".join(MoveTable(move_table(MOVES)).csv()), newline="")))
    found = {(row["topic"].removeprefix("'"), int(row["partition"])): row for row in rows}
    assert len(rows) == len(MOVES)
    for move in MOVES:
        row = found[move.topic_partition]
        assert row["replicas_before"] == " ".join(map(str, move.before))
        assert row["replicas_after"] == " ".join(map(str, move.after))
        assert (row["bytes_to_copy"], row["batch"], row["reason"]) == (
            str(move.bytes_to_copy), str(move.batch), move.reason,
        )  # fmt: skip
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert any(cell == "'=cmd|x!A1" for cell in cells)
    load = Load(1, 1, 1, None)
    assert "'=1+1" in brokers_csv([BrokerChange(1, "=1+1", None, load, load)])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"sort": "topic;drop"}, "sort is one of bytes, partition, batch, reason"),
        ({"page": "0"}, "page is a whole number from 1"),
        ({"page": "-1"}, "page is"),
        ({"page": "1e3"}, "page is"),
        ({"page": "9" * 40}, "page is"),
        ({"page": "١"}, "page is"),
        ({"group": "x"}, "group is a whole number from 0"),
        ({"q": "x" * 201}, "q has at most 200"),
        ({"q": "a\x00b"}, "printable"),
    ],
)
def test_an_address_that_is_not_one_of_ours_is_refused_in_words(asked: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Query.of(asked, SORTS)


def test_a_link_keeps_the_search_and_begins_at_its_first_page() -> None:
    query = Query.of({"candidate": "a b&c", "q": "<x>&y", "sort": "batch", "group": "2", "page": "7"}, SORTS)
    assert query.link(sort="bytes") == "?candidate=a+b%26c&q=%3Cx%3E%26y&group=2&sort=bytes"
    assert query.link(page=8).endswith("&sort=batch&page=8")
    assert "group" not in query.link(group=None)
