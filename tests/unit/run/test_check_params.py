"""Params that no Dag can use are refused in words, before anything is read or written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.run.inputs import check_params


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"reason": "a\ud800"}, "'reason' holds half of a surrogate pair"),
        ({"topics_out": ["b", "a\udfff"]}, "'topics_out' holds half of a surrogate pair"),
        ({"broker_pools": [{"topics": ["\ud800"], "brokers": [1]}]}, "'broker_pools' holds half of a surrogate pair"),
        ({"replace": {"\ud800": 1}}, "'replace' holds half of a surrogate pair"),
        ({"kafka_conn_id": 5}, "kafka_conn_id must be a text, and is 5"),
        ({"kafka_conn_id": ["a"]}, "kafka_conn_id must be a text"),
        ({"reason": {"a": 1}}, "reason must be a text"),
    ],
)
def test_what_no_dag_can_use_is_refused(params: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        check_params(params)
    assert str(refused.value).startswith(said)
    str(refused.value).encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(["topics_in", "plan", "zzz"]), json_values))
def test_everything_else_is_left_to_the_readers_of_each_param(params: dict[str, Any]) -> None:
    check_params(params)
