"""JSON that a person gives is read whole, or refused with its line and column."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import KafkaRuleError, RebalanceError, SettingsError
from kafka_rebalance.kafka.given_json import decode_given, one_json_value
from kafka_rebalance.kafka.reassignment_json import given_topics, parse_plan

ENTRY = '{"topic":"orders","partition":0,"replicas":[1,2]}'
PLAN = f'{{"version":1,"partitions":[{ENTRY}]}}'
LISTS = {("orders", 0): (1, 2)}
OTHER = PLAN.replace('"partition":0', '"partition":1')
GENERATED = (
    f"Current partition replica assignment\n\n{OTHER}\n\nProposed partition reassignment configuration\n{PLAN}\n"
)
EXECUTED = (
    f"Current partition replica assignment\n\n{PLAN}\n\nSave this to use as the --reassignment-json-file option during "
    "rollback\nSuccessfully started reassignment of partitions.\n"
)


@pytest.mark.parametrize("text", [PLAN, f"\ufeff{PLAN}\r\n", f"\n \t{PLAN}\n\n", GENERATED, f"\ufeff{GENERATED}"])
def test_a_plan_is_read_with_a_mark_blanks_and_the_headings_of_generate(text: str) -> None:
    assert parse_plan(text) == LISTS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{PLAN}\n{OTHER}\n", 'line 2, column 1 (\'{"version":1,"partitions":[{"t\'): a second JSON value begins'),
        (f"{PLAN}{OTHER}", f"line 1, column {len(PLAN) + 1} "),
        (f"{PLAN},", "the text goes on after its JSON"),
        (f"{PLAN}\nProposed by someone", "line 2, column 1 ('Proposed by someone'): the text goes on"),
        (f'{{"partitions":[{ENTRY}],\n "partitions":[]}}', "line 2, column 2 ('\"partitions\":[]}'): the field 'parti"),
        (f'{{"partitions":[{ENTRY}],"p\\u0061rtitions":[]}}', "the field 'partitions' comes a second time"),
        (PLAN.replace('"partition":0', '"partition":0,"partition":1'), "the field 'partition' comes a second time"),
        (EXECUTED, "This is what kafka-reassign-partitions --execute printed"),
        (GENERATED.partition("\n\nProp")[0], "This is what kafka-reassign-partitions --execute printed"),
        (GENERATED + GENERATED, "The text holds more than one plan"),
        (f"A plan: {OTHER}\n{GENERATED}", "The text holds more than one plan"),
        (f"{OTHER}\n{GENERATED}", "line 2, column 1 ('Current partition replica assi')"),
        (f"{GENERATED}\n{OTHER}", "line 8, column 1"),
    ],
)
def test_a_text_of_which_kafkas_tool_would_lose_a_part_is_refused(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_plan(text)
    assert said in str(refused.value)
    assert "Nothing was" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"version":1,\n "partitions":[],\n}', "line 3, column 1 ('}'): the comma before it is one too many"),
        ('{"partitions":[\n  1,\n]}', "line 3, column 1 (']}'): the comma before it is one too many"),
        ('{\n// the new brokers\n"version":1}', "line 2, column 1 ('// the new brokers \"version\":1'): a comment"),
        ("# plan\n{}", "line 1, column 1 ('# plan {}'): a comment"),
        ("{'version':1}", "line 1, column 2 (\"'version':1}\"): JSON has only double quotes"),
        ('{"version":NaN}', "line 1, column 12 ('NaN}'): NaN is no number in JSON"),
        ('{"version":1', "line 1, column 13: the text ends before its JSON does"),
        ("", "line 1, column 1: there is no JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_json_is_refused_with_line_column_and_cause(text: str, said: str) -> None:
    for read in (parse_plan, given_topics):
        with pytest.raises(KafkaRuleError, match="The input string is not a valid JSON") as refused:
            read(text)
        assert said in str(refused.value)


@pytest.mark.parametrize("text", ['"\\ud800"', '{"version":"\\udfff"}', '{"partitions":["a\\ud800"]}'])
def test_an_error_about_half_of_a_surrogate_pair_can_be_written_down(text: str) -> None:
    for read in (parse_plan, given_topics):
        with pytest.raises(RebalanceError) as refused:
            read(text.replace("partitions", "topics") if read is given_topics else text)
        str(refused.value).encode()


def test_a_topics_file_is_read_as_strictly() -> None:
    topics = '{"version":1,"topics":[{"topic":"a"}]}'
    assert given_topics(f"\ufeff{topics}\n") == ("a",)
    for text in (topics + topics, topics.replace("[", '[],"topics":[')):
        with pytest.raises(SettingsError, match="a second"):
            given_topics(text)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (PLAN.encode("utf-16"), "plan.json is UTF-16 text"),
        (PLAN.encode("utf-16-le"), "plan.json is UTF-16 text"),
        (PLAN.encode("utf-16-be"), "plan.json is UTF-16 text"),
        ('{\n "a":"é"}'.encode("latin-1"), "byte 0xe9 at line 2, column 7 belongs to no character"),
    ],
)
def test_a_file_that_is_not_utf_8_is_refused_with_what_to_do(content: bytes, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        decode_given(content, "plan.json")
    assert said in str(refused.value)
    assert "Save it as UTF-8" in str(refused.value)


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert decode_given(PLAN.encode("utf-8-sig"), "plan.json") == PLAN


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(json_values, st.sampled_from([None, 1, "\t"]))
def test_every_json_value_is_read_as_it_is(value: object, indent: int | str | None) -> None:
    text = json.dumps(value, indent=indent)
    assert one_json_value(text) == text


@given(st.text(alphabet='{}[]",:1 \n\\aN/', max_size=30))
def test_any_other_text_is_refused_in_words(text: str) -> None:
    try:
        one_json_value(text)
    except RebalanceError as refused:
        assert "At line " in str(refused)  # noqa: PT017
    else:
        json.loads(text)
