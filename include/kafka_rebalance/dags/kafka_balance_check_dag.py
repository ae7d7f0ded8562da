"""`kafka_balance_check`: measures every night how far each cluster is from balance. Never writes to a cluster.

It runs at 02:15 UTC, or as the options `check_cron` and `check_zone` say. The clusters are the connection ids in the
Airflow Variable `kafka_rebalance_clusters` (a JSON list). A cluster past its policy's `imbalance_limit` gets a run of
`kafka_rebalance`, which waits for approval. It gets none while another run is open, or while no rebalance could help.
It gets none if a person rejected one and nothing material has changed since. A cluster that cannot be read within
`CHECK_TIMEOUT` fails its own part of the run. The other clusters do not wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Asset, CronTriggerTimetable, Variable, conf, dag, task, task_group
from airflow.sdk.exceptions import AirflowSkipException
from croniter import croniter

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.run.clusters import CLUSTERS, fleet
from kafka_rebalance.workflow.airflow_deployment import SECTION
from kafka_rebalance.workflow.notices import FAILED, Notice
from kafka_rebalance.workflow.run_step import fails_without_retry, run_step

# When the nightly check runs: the options `check_cron` and `check_zone`.
#
# Airflow reads all our Dags from one file. So an option that is wrong must not raise here: the janitor would be gone
# too. The check then keeps its usual schedule, and each of its runs fails and names the option.


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


def _read_check_schedule() -> CheckSchedule:
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


BALANCE = Asset("kafka_balance")
SCHEDULE = _read_check_schedule()
CHECK_TIMEOUT = timedelta(minutes=20)  # for one try; 150,000 partitions take minutes, a dead cluster never ends


@dag(
    dag_id="kafka_balance_check",
    description=SCHEDULE.problem or "Nightly: measure how far every cluster is from balance; no writes to a cluster.",
    schedule=SCHEDULE.timetable,
    catchup=False,
    max_active_runs=1,
    allowed_run_types=["scheduled", "manual"],  # no backfill: the check always sees today
    tags=["kafka"],
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=2), "on_failure_callback": Notice(FAILED)},
)
def balance_check() -> None:
    @task
    def clusters() -> list[str]:
        fails_without_retry(SCHEDULE.check)()
        return fleet(Variable.get(CLUSTERS, default=None))

    @task(
        outlets=[BALANCE], execution_timeout=CHECK_TIMEOUT, map_index_template="{{ task.op_kwargs['connection_id'] }}"
    )
    def check(connection_id: str, dag_run: Any = None, outlet_events: Any = None) -> dict[str, Any]:
        verdict: dict[str, Any] = run_step("kafka_rebalance.nightly.check_cluster.check", dag_run, connection_id)
        outlet_events[BALANCE].extra = verdict
        return verdict

    @task(multiple_outputs=True)
    def request(verdict: dict[str, Any]) -> dict[str, Any]:
        if not verdict["propose"]:
            raise AirflowSkipException(f"No rebalance is proposed for {verdict['connection_id']}: {verdict['text']}")
        return {"conf": verdict["conf"], "run_id": verdict["proposal"]}

    @task_group
    def cluster(connection_id: str) -> None:
        verdict = check(connection_id=connection_id)
        asked = request(verdict)
        TriggerDagRunOperator(
            task_id="propose",
            trigger_dag_id="kafka_rebalance",
            trigger_run_id=asked["run_id"],
            conf=asked["conf"],
            skip_when_already_exists=True,  # an earlier try of this task may have started it
            wait_for_completion=False,
        )

    cluster.expand(connection_id=clusters())


DAG = balance_check()
