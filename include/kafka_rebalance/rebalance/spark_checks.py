"""Before Spark plans: its files must be of this run, and the installed Spark must be one version."""

from __future__ import annotations

import itertools
from importlib.metadata import PackageNotFoundError, version

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.folder_owner import read_folder_owner
from kafka_rebalance.errors import SparkError
from kafka_rebalance.run import ledger, running_rebalance
from kafka_rebalance.run.inputs import SparkArguments, StepInputs
from kafka_rebalance.run.run_folder import check_submitted, open_own_folder

# Before Spark plans: the files that it gets must be of this run. XComs name them, and people can edit XComs.


def check_spark_arguments(inputs: StepInputs, submit: SparkArguments) -> None:
    """Raises RunFolderError if a file is not of this run, ApprovalError if the run already executes a plan."""
    given = dict(itertools.pairwise(submit.application_args))
    folder = open_own_folder(inputs.deployment, given["--out"], inputs.run, given["--expect-nonce"])
    wanted = {
        "--snapshot": f"{folder}/{json_files.SNAPSHOT_FOLDER}",
        "--settings": f"{folder}/{json_files.SETTINGS}",
        "--metrics": str(ledger.folder_of(inputs.deployment, "metrics", read_folder_owner(folder).connection_id)),
        "--expect-run": f"{inputs.run.dag_id}/{inputs.run.run_id}",
    }
    same = all(given[name] == value for name, value in wanted.items())
    check_submitted(submit, same)
    running_rebalance.check_not_begun(folder)


# Whether the installed Spark is one version: `pyspark` and `pyspark-client` write files of the same names.


_PACKAGES = ("pyspark", "pyspark-client")


def check_one_version(_inputs: StepInputs) -> None:
    """Raises SparkError if both are installed in different versions: then each has files of the other.

    With one of them alone there is nothing to mix. Spark's driver may also be elsewhere.
    """
    found = {name: installed for name in _PACKAGES if (installed := _version(name)) is not None}
    if len(set(found.values())) > 1:
        both = " and ".join(f"{name} {installed}" for name, installed in found.items())
        one = " ".join(f"{name}=={found['pyspark']}" for name in found)
        raise SparkError(
            f"{both} are installed together. They write files of the same names, so this Spark is a mixture of two "
            f"versions. Nothing was read from or written to the cluster. Install one version of both with `pip install "
            f"--force-reinstall --no-deps {one}`, on every host of Airflow. Then clear this task."
        )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
