"""The schedule of the nightly check, as Airflow's options give it. A wrong option takes no Dag away."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from airflow.timetables.trigger import CronTriggerTimetable

from support.airflow.parsed_dags import read_dags

CHECK = "kafka_balance_check"


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Any:
    def read(**options: str) -> DAG:
        for name, value in options.items():
            monkeypatch.setenv(f"AIRFLOW__KAFKA_REBALANCE__{name.upper()}", value)
        dags = read_dags()
        assert {"kafka_rebalance", "kafka_rebalance_cancel", "kafka_throttle_janitor"} <= set(dags)
        return dags[CHECK]

    return read


def next_runs(check: DAG, after: datetime, count: int) -> list[str]:
    """As Airflow's scheduler computes them, in UTC."""
    made: Any = check.timetable
    schedule, found = CronTriggerTimetable(made.expression, timezone=made.timezone), []
    for _ in range(count):
        after = schedule._get_next(pendulum.instance(after))
        found.append(f"{after.astimezone(UTC):%a %d %H:%M}")
    return found


def clusters(check: DAG) -> Any:
    task: Any = check.get_task("clusters")
    return task.python_callable()


@pytest.mark.parametrize("options", [{}, {"check_cron": "", "check_zone": " "}])
def test_without_options_the_check_runs_at_its_usual_time(configured: Any, options: dict[str, str]) -> None:
    check = configured(**options)
    assert next_runs(check, datetime(2026, 3, 27, 12, tzinfo=UTC), 2) == ["Sat 28 02:15", "Sun 29 02:15"]
    assert clusters(check) == []


def test_the_check_runs_at_the_local_time_of_its_zone_in_summer_and_winter(configured: Any) -> None:
    check = configured(check_cron="30 1 * * mon-fri", check_zone="Europe/Berlin")
    assert next_runs(check, datetime(2026, 3, 26, 12, tzinfo=UTC), 2) == ["Fri 27 00:30", "Sun 29 23:30"]
    assert (check.description or "").startswith("Nightly")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"check_cron": "at night"}, r"\[kafka_rebalance\] check_cron is 'at night'\. It must be five fields"),
        ({"check_cron": "61 2 * * *"}, "check_cron is '61 2"),
        ({"check_cron": "0 0 30 2 *"}, "of a cron that comes round"),
        ({"check_cron": "0 15 2 * * *"}, "as in '30 1"),
        ({"check_zone": "Berlin"}, r"check_zone is 'Berlin'\. It must be a time zone, as in 'Europe/Berlin'\."),
        ({"check_zone": "../../etc/passwd"}, "check_zone"),
    ],
)
def test_a_wrong_option_is_said_by_the_dag_and_each_of_its_runs_and_no_cluster_is_checked(
    configured: Any, options: dict[str, str], words: str
) -> None:
    check = configured(**options)
    assert next_runs(check, datetime(2026, 3, 27, 12, tzinfo=UTC), 1) == ["Sat 28 02:15"]
    with pytest.raises(AirflowFailException, match=words) as failed:
        clusters(check)
    assert "No cluster was checked" in str(failed.value)
    assert str(failed.value).removeprefix("SettingsError: ").startswith(str(check.description))
