"""Submits the keys job. It gets the Kafka settings in its environment, never on a command line or in a file."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from airflow.sdk import conf
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from kafka_rebalance.documents.key_sample import KAFKA_CONFIG
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.run.retried_errors import final_text
from kafka_rebalance.workflow.operators.submit_job import JobSubmitOperator
from kafka_rebalance.workflow.run_step import run_step

if TYPE_CHECKING:
    from airflow.sdk import Context

# Spark's own connector of the same release. Spark downloads it by this name if no jars are configured.
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"


class KeysSubmitOperator(JobSubmitOperator):
    """Runs the driver that reads a topic's keys. The driver must run on the task's machine (client mode)."""

    template_fields = (*JobSubmitOperator.template_fields, "run_folder")

    def __init__(self, *, run_folder: str, **kwargs: Any) -> None:
        jars = conf.get("kafka_rebalance", "spark_kafka_jars", fallback="") or None
        super().__init__(jars=jars, packages=None if jars else CONNECTOR, **kwargs)
        self.run_folder = run_folder

    def execute(self, context: Context) -> Any:
        from kafka_rebalance.topics import sample_keys

        folder, settings = run_step(sample_keys.begin_sample, context["dag_run"], self.run_folder, self)
        # On YARN and Kubernetes the operator would put its own env_vars on the command line.
        os.environ[KAFKA_CONFIG] = settings
        try:
            return self.run_driver(context)
        except (AirflowException, RebalanceError) as failed:
            # An expansion does not need its forecast. The forecast says that it has no keys, and why.
            told = final_text(failed) if isinstance(failed, RebalanceError) else sample_keys.last_line(str(failed))
            sample_keys.go_without(folder, told)
            self.log.exception("The keys were not sampled. The forecast goes without them.")
            raise AirflowSkipException("The keys were not sampled. The forecast goes without them.") from failed
        finally:
            del os.environ[KAFKA_CONFIG]
