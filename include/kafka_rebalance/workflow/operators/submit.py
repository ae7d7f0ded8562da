"""The operators that submit Spark jobs of ours."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import conf
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from kafka_rebalance.documents.job_environment import ERROR_FILE, STORAGE_OPTIONS, left_error
from kafka_rebalance.documents.key_sample import KAFKA_CONFIG
from kafka_rebalance.errors import ConnectionSettingsError, RebalanceError
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.retried_errors import final_text
from kafka_rebalance.spark import package_zip
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import fails_without_retry, run_step

if TYPE_CHECKING:
    from airflow.sdk import Context


# Submits a Spark job of ours: the code of the installed package, whatever lies in the runs' storage.
#
# The driver reaches the run's folder as this task does, and its error becomes the task's. Both go through the driver's
# environment, never through a command line. The driver inherits that environment if it runs on the task's machine
# (client mode). In cluster mode it needs credentials of its own.


class JobSubmitOperator(SparkSubmitOperator):
    """A retry submits the job again: planning twice does no harm, and YARN's cluster mode refuses `durable`."""

    py_files: str | None
    application_args: list[str]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(durable=False, **kwargs)

    @fails_without_retry
    def execute(self, context: Context) -> Any:
        return self.run_driver(context)

    def run_driver(self, context: Context) -> Any:
        """Raises the driver's own error, or AirflowException if it has left none."""
        with tempfile.TemporaryDirectory() as made:
            place = Path(made)
            self.py_files = str(package_zip.build_package_zip(place / package_zip.PACKAGE_ZIP))
            told = {ERROR_FILE: str(place / "error.json")} | self._reach_bucket(airflow_deployment())
            try:
                with _environment(told):
                    return super().execute(context)
            except AirflowException:
                error = left_error(place / "error.json")
                if error is None:
                    raise
            raise error

    def _reach_bucket(self, deployment: Deployment) -> dict[str, str]:
        """If runs are in a bucket: gives Spark URLs without Airflow's connection id.

        Returns what the driver's environment needs to open these.
        """
        root: Any = deployment.runs_root
        if isinstance(root, Path):
            return {}
        here, there = str(root), f"{root.protocol}://{root.path}"
        self.application_args = [
            f"{there}{given.removeprefix(here)}" if given.startswith(here) else given for given in self.application_args
        ]
        return {STORAGE_OPTIONS: _client_options(root)}


def _client_options(folder: Any) -> str:
    """fsspec's options for a folder of Airflow, as JSON, for a process without Airflow. Raises ConnectionSettingsError.

    Without a connection the other process finds credentials as this one does.
    """
    if folder.conn_id is None:
        return "{}"
    options = dict(folder.fs.storage_options)
    session = options.pop("session", None)
    if session is not None and not options.get("anon"):
        options |= asyncio.run(_credentials(session))
        options["client_kwargs"] = {"region_name": session.get_config_variable("region")}
    try:
        return json.dumps(options)
    except TypeError as wrong:
        raise ConnectionSettingsError(
            f"The Airflow connection {folder.conn_id} of runs_url has a setting that Spark's driver cannot get "
            f"({wrong}). Nothing was submitted. Let the driver's machine have credentials of its own, and name no "
            "connection in runs_url."
        ) from wrong


async def _credentials(session: Any) -> dict[str, str | None]:
    """The credentials as they are now. Those of a role expire, like every token of a role."""
    now = await (await session.get_credentials()).get_frozen_credentials()
    return {"key": now.access_key, "secret": now.secret_key, "token": now.token}


@contextmanager
def _environment(told: Mapping[str, str]) -> Iterator[None]:
    """For the time of the job. Not the operator's `env_vars`, which it puts on command lines of YARN and Kubernetes."""
    os.environ.update(told)
    try:
        yield
    finally:
        for name in told:
            del os.environ[name]


# Submits the keys job. It gets the Kafka settings in its environment, never on a command line or in a file.


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
        from kafka_rebalance.topics import keys

        folder, settings = run_step(keys.begin_sample, context["dag_run"], self.run_folder, self)
        # On YARN and Kubernetes the operator would put its own env_vars on the command line.
        os.environ[KAFKA_CONFIG] = settings
        try:
            return self.run_driver(context)
        except (AirflowException, RebalanceError) as failed:
            # An expansion does not need its forecast. The forecast says that it has no keys, and why.
            told = final_text(failed) if isinstance(failed, RebalanceError) else keys.last_line(str(failed))
            keys.go_without(folder, told)
            self.log.exception("The keys were not sampled. The forecast goes without them.")
            raise AirflowSkipException("The keys were not sampled. The forecast goes without them.") from failed
        finally:
            del os.environ[KAFKA_CONFIG]
