"""`kafka_throttle_janitor`: takes care every minute of throttles and locks whose run is gone, paused or failed.

It looks at the clusters of the Airflow Variable `kafka_rebalance_clusters`, and at every cluster with a throttle or a
lock of ours. While that Variable is mistyped, it looks after the latter, and its run fails. When the copies have ended,
it removes the throttle that our lease records. It gives back the lock of a run that is over. It fails if nobody follows
copies in flight: once for each finding, and every half hour while it lasts. Put your alerts on this Dag's failures. Its
other findings are in its log and in `runs_url/janitor/<connection>.json`. It cleans only what an approver names in
`clean`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, Variable, dag, task

from kafka_rebalance.run.clusters import CLUSTERS, fleet
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.form_fields import optional, several
from kafka_rebalance.workflow.notices import UNWATCHED, Notice
from kafka_rebalance.workflow.run_step import fails_without_retry, run_step


@dag(
    dag_id="kafka_throttle_janitor",
    description="Take care of throttles and locks whose run is gone, and find throttles that no run holds.",
    schedule=CronTriggerTimetable("* * * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    # The janitor must work even if nobody remembers to unpause it. It writes only what our own leases say.
    is_paused_upon_creation=False,
    allowed_run_types=["scheduled", "manual"],  # no backfill: the janitor always sees today
    params={
        "kafka_conn_id": optional("string", "Cluster", "Only this cluster. Empty: all clusters."),
        "clean": several(
            "Clean", "Ids of findings from the newest report. Only approvers of the cluster's policy may do this."
        ),
        "break_lock": optional(
            "string",
            "Break the lock of",
            "The owner exactly as the lock names it: 'dag/run of airflow'. Use it if that run is over and this Airflow "
            "cannot know that. If the record of the lock is damaged, so that nobody can read its owner, give the place "
            "that the error names instead. Only approvers of the cluster's policy may do this.",
        ),
    },
    tags=["kafka"],
    doc_md=__doc__,
    default_args={"retries": 0, "execution_timeout": timedelta(minutes=10), "on_failure_callback": Notice(UNWATCHED)},
)
def throttle_janitor() -> None:
    @task
    def clusters(params: Any = None) -> list[str]:
        from kafka_rebalance.throttle.janitor import look_after_cluster

        stored = Variable.get(CLUSTERS, default=None)
        return look_after_cluster.clusters(airflow_deployment(), stored, params["kafka_conn_id"])

    @task
    def check_variable(params: Any = None) -> None:
        """Fails the run while the Variable is mistyped; whoever has an open throttle or a lock is looked after."""
        if not params["kafka_conn_id"]:
            fails_without_retry(fleet)(Variable.get(CLUSTERS, default=None))

    check_variable()

    @task(map_index_template="{{ task.op_kwargs['connection_id'] }}")
    def tend(connection_id: str, params: Any = None, dag_run: Any = None) -> dict[str, Any]:
        from kafka_rebalance.workflow.gauges import send_gauges

        try:
            return run_step(
                "kafka_rebalance.throttle.janitor.look_after_cluster.look_after_cluster", dag_run, connection_id, params
            )
        finally:  # an alert fails the task, and is what metrics are for
            send_gauges(connection_id)

    tend.expand(connection_id=clusters())


DAG = throttle_janitor()
