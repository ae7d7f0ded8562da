"""Submits the keys job with the cluster's Kafka settings in its environment: on no command line, in no file."""

from __future__ import annotations

import itertools
import json
import os
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.requests.key_sample import KAFKA_CONFIG
from kafka_rebalance.workflow.retries import fails_without_retry
from kafka_rebalance.workflow.run.folder import RunFolder, check_submitted, open_own_folder

if TYPE_CHECKING:
    from airflow.sdk import Context

# Spark's own connector of the same release, resolved by name where no jars of it are given.
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"


class KeysSubmitOperator(SparkSubmitOperator):
    """`SparkSubmitOperator` for the driver that reads a topic's keys. It must run where the task runs (client mode)."""

    template_fields = (*SparkSubmitOperator.template_fields, "run_folder")

    def __init__(self, *, run_folder: str, **kwargs: Any) -> None:
        jars = conf.get("kafka_rebalance", "spark_kafka_jars", fallback="") or None
        super().__init__(jars=jars, packages=None if jars else CONNECTOR, **kwargs)
        self.run_folder = run_folder

    @fails_without_retry
    def _own_folder(self, context: Context) -> RunFolder:
        """This very run's folder, which must be all that Spark is given: the zip is code, and the job gets secrets."""
        from kafka_rebalance.documents.requests.key_sample import REQUEST

        given = dict(itertools.pairwise(self.application_args or ()))
        folder = open_own_folder(self.run_folder, context["dag_run"], given["--expect-nonce"])
        same = (given["--out"], given["--sample"]) == (str(folder), f"{folder}/{REQUEST}")
        check_submitted(same and self.py_files == f"{folder}/{json_files.PACKAGE_ZIP}")
        return folder

    def execute(self, context: Context) -> Any:
        from kafka_rebalance.steps.deployment import read_connection

        folder = self._own_folder(context)
        written = json_files.read_json(folder, json_files.TOPIC)
        kafka = read_connection(written["connection_id"]).kafka
        # The operator's own env_vars would go onto the command line on YARN and Kubernetes.
        os.environ[KAFKA_CONFIG] = json.dumps({**kafka.security, "bootstrap.servers": kafka.bootstrap_servers})
        try:
            return super().execute(context)
        except AirflowException as failed:
            # An expansion does not hang on its forecast, which says that it goes without the keys, and why.
            from kafka_rebalance.workflow.topics.forecast import NOT_SAMPLED

            json_files.write_json(folder, NOT_SAMPLED, {"why": _last_line(str(failed))})
            self.log.exception("The keys were not sampled")
            raise AirflowSkipException("The keys were not sampled; the forecast says so and goes without") from failed
        finally:
            del os.environ[KAFKA_CONFIG]


def _last_line(text: str) -> str:
    """Spark's own words out of the operator's error, which quotes the end of the driver's log."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line]
    return (told or lines or ["unknown"])[-1]
