"""Before Spark plans: the files that it gets must be of this run. XComs name them, and people can edit XComs."""

from __future__ import annotations

import itertools

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.folder_owner import read_folder_owner
from kafka_rebalance.run import ledger_rows, running_rebalance
from kafka_rebalance.run.inputs import SparkArguments, StepInputs
from kafka_rebalance.run.run_folder import check_submitted, open_own_folder


def check_spark_arguments(inputs: StepInputs, submit: SparkArguments) -> None:
    """Raises RunFolderError if a file is not of this run, ApprovalError if the run already executes a plan."""
    given = dict(itertools.pairwise(submit.application_args))
    folder = open_own_folder(inputs.deployment, given["--out"], inputs.run, given["--expect-nonce"])
    wanted = {
        "--snapshot": f"{folder}/{json_files.SNAPSHOT_FOLDER}",
        "--settings": f"{folder}/{json_files.SETTINGS}",
        "--metrics": str(ledger_rows.folder_of(inputs.deployment, "metrics", read_folder_owner(folder).connection_id)),
        "--expect-run": f"{inputs.run.dag_id}/{inputs.run.run_id}",
    }
    same = all(given[name] == value for name, value in wanted.items())
    check_submitted(submit, same)
    running_rebalance.check_not_begun(folder)
