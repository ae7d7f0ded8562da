"""What the runs of this folder must not have left behind. Runs after them: pytest takes files in the order of names."""

from __future__ import annotations

from demo.local_airflow import LocalAirflow
from support.airflow.command_lines import CommandLines


def test_no_secret_is_in_any_file_that_airflow_and_the_runs_have_left(
    airflow: LocalAirflow, secrets: tuple[str, ...]
) -> None:
    """Logs, the database with its XComs, run folders, the ledger. The connection itself comes from the environment."""
    files = [path for path in airflow.home.rglob("*") if path.is_file()]
    assert any("spark" in path.read_text(errors="replace").lower() for path in files if "task_id=plan" in str(path))
    for secret in secrets:
        assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_no_secret_was_in_the_arguments_of_a_process(command_lines: CommandLines) -> None:
    assert command_lines.saw_spark
    assert command_lines.telling == set()
