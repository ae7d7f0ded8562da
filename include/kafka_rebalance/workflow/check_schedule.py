"""When the nightly check runs: the options `check_cron` and `check_zone`.

Airflow reads all our Dags from one file. So an option that is wrong must not raise here: the janitor would be gone too.
The check then keeps its usual schedule, and each of its runs fails and names the option.
"""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from airflow.sdk import CronTriggerTimetable, conf
from croniter import croniter

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.workflow.airflow_deployment import SECTION

CRON, ZONE = "check_cron", "check_zone"
USUAL = "15 2 * * *", "UTC"


@dataclass(frozen=True, slots=True)
class CheckSchedule:
    """`problem`: why it is not the configured one."""

    timetable: CronTriggerTimetable
    problem: str | None = None

    def check(self) -> None:
        """Raises SettingsError."""
        if self.problem is not None:
            raise SettingsError(f"{self.problem} No cluster was checked. Correct the option and restart Airflow.")


def read_check_schedule() -> CheckSchedule:
    """As configured now. The zone's clock changes count, so 01:30 is 01:30 in summer and winter."""
    cron, zone = (
        conf.get(SECTION, name, fallback="").strip() or usual for name, usual in zip((CRON, ZONE), USUAL, strict=True)
    )
    problem = _cron_problem(cron) or _zone_problem(zone)
    if problem is None:
        return CheckSchedule(CronTriggerTimetable(cron, timezone=zone))
    return CheckSchedule(CronTriggerTimetable(USUAL[0], timezone=USUAL[1]), problem)


def _cron_problem(cron: str) -> str | None:
    """A cron that never comes round, as of 30 February, would fail in the scheduler."""
    try:
        if len(cron.split()) == len(USUAL[0].split()):
            croniter(cron).get_next()
            return None
    except ValueError:  # what croniter raises
        pass
    return (
        f"[{SECTION}] {CRON} is {cron!r}. It must be five fields of a cron that comes round, as in '30 1 * * mon-fri'."
    )


def _zone_problem(zone: str) -> str | None:
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, KeyError):
        return f"[{SECTION}] {ZONE} is {zone!r}. It must be a time zone, as in 'Europe/Berlin'."
    return None
