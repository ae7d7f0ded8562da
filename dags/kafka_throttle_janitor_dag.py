"""`kafka_throttle_janitor`: every minute, takes care of throttles and locks whose run is gone, paused or failed.

It looks after the clusters of the Airflow Variable `kafka_rebalance_clusters`, and after every cluster with a throttle
or a lock of ours. When the copies have ended, it takes off what our lease says is ours. It gives back the lock of a run
that is over. It fails if copies are in flight that nobody follows: once for each finding, and every half hour while it
lasts. Put your alerts on this Dag's failures. Its other findings are in its log and in
`runs_url/janitor/<connection>.json`. It cleans only what an approver ticks in `clean`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, Param, Variable, dag, task

from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.notices import UNWATCHED, Notice

CLUSTERS = "kafka_rebalance_clusters"


@dag(
    dag_id="kafka_throttle_janitor",
    description="Take care of throttles and locks whose run is gone, and find throttles that nobody holds.",
    schedule=CronTriggerTimetable("* * * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    # Custody must not hang on somebody remembering to unpause it; it writes nothing but what our own leases say.
    is_paused_upon_creation=False,
    allowed_run_types=["scheduled", "manual"],  # no backfill: a look at the past sees today
    params={
        "kafka_conn_id": Param(
            None, type=["null", "string"], title="Cluster", description="Only this cluster. Empty: all clusters."
        ),
        "clean": Param(
            [],
            type="array",
            items={"type": "string"},
            title="Clean",
            description="Ids of findings, as the newest report has them. For approvers of the cluster's policy.",
        ),
        "break_lock": Param(
            None,
            type=["null", "string"],
            title="Break the lock of",
            description="The owner exactly as the lock names it, 'dag/run of airflow', if that run is over and this "
            "Airflow cannot know it. For approvers of the cluster's policy.",
        ),
    },
    tags=["kafka"],
    doc_md=__doc__,
    default_args={"retries": 0, "execution_timeout": timedelta(minutes=10), "on_failure_callback": Notice(UNWATCHED)},
)
def throttle_janitor() -> None:
    @task
    def clusters(params: Any = None) -> list[str]:
        from kafka_rebalance.steps.janitor import look_after_cluster

        stored = Variable.get(CLUSTERS, default=None)
        return look_after_cluster.clusters(airflow_deployment(), stored, params["kafka_conn_id"])

    @task(map_index_template="{{ task.op_kwargs['connection_id'] }}")
    def tend(connection_id: str, params: Any = None, dag_run: Any = None) -> dict[str, Any]:
        from kafka_rebalance.steps.janitor import look_after_cluster
        from kafka_rebalance.workflow.run_step import run_step

        return run_step(look_after_cluster.look_after_cluster, dag_run, connection_id, params)

    tend.expand(connection_id=clusters())


throttle_janitor()
