"""The tables of params in docs/reference.md are those of the forms."""

from __future__ import annotations

from scripts.reference import differing, form_sections
from support.airflow.parsed_dags import read_dags


def test_the_page_has_the_params_of_every_form_as_the_dags_have_them() -> None:
    read_dags()  # made anew: a test of this process may have changed those that it was given
    assert differing(form_sections()) == []


def test_every_dag_with_params_has_a_table() -> None:
    with_form = {dag_id for dag_id, dag in read_dags().items() if dag.params}
    assert {name.removeprefix("params-").replace("-", "_") for name in form_sections()} == with_form
    assert len(with_form) > 3
