"""Tasks behind the present one that Airflow will never run, although their turn is still to come.

Airflow marks what follows a failed task as `upstream_failed`, a few tasks a second. If somebody clears the failed task
meanwhile, some of the later ones keep that mark: nothing runs them, and no notice tells so.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafka_rebalance.errors import ReadError, VerificationError
from kafka_rebalance.run.inputs import StepInputs

log = logging.getLogger(__name__)

_PASSED_OVER = "upstream_failed"
# Airflow's states of a task that has run, runs, or will run. None, which is left out, is one that waits.
_RUNS = {
    *("scheduled", "queued", "running", "restarting", "deferred", "awaiting_input"),
    *("up_for_retry", "up_for_reschedule", "success", "failed"),
}


def check_all_will_run(inputs: StepInputs, tasks: Sequence[str]) -> None:
    """For the moment before anything is asked or written. Raises VerificationError if Airflow will not run some.

    If Airflow does not tell, a later task looks again.
    """
    never = _passed_over(inputs, tasks)
    if never:
        raise VerificationError(
            f"Airflow would not run {_listed(never)} after this one: an earlier task failed, and they kept the state "
            f"{_PASSED_OVER} when it was cleared. This try has changed nothing in the cluster. Clear this task with "
            "its downstream tasks."
        )


def check_rest_will_run(inputs: StepInputs, done: str, tasks: Sequence[str]) -> None:
    """For the end of a task that has `done` its work. Raises VerificationError if Airflow will not run some."""
    never = _passed_over(inputs, tasks)
    if never:
        raise VerificationError(
            f"{done} But Airflow will not run {_listed(never)}: an earlier task failed, and they kept the state "
            f"{_PASSED_OVER} when it was cleared. So nobody does their work. Clear {', '.join(never)} and this task."
        )


def check_nothing_passed_over(inputs: StepInputs) -> None:
    """Raises VerificationError if Airflow skipped or will not run what ends a rebalance, ReadError if it does not tell.

    Somebody has marked the run or a task, or has cleared a failed task too soon.
    """
    tasks = ("approve", "reassign", "elect_leaders", "verify", "record")
    states = inputs.deployment.other_runs.task_states(inputs.run.dag_id, inputs.run.run_id, tasks)
    if states is None:
        raise ReadError("Airflow does not tell whether verify has run. This task changes nothing. Clear it.")
    if states.get("verify") == "skipped":
        raise VerificationError(
            "Somebody ended the run by hand, so nobody verified whether it reached the approved end. release_throttle "
            "or the janitor puts its throttle back. To go on, clear hold_throttle with what follows it."
        )
    never = [task for task in ("verify", "record") if states.get(task, "queued") not in _RUNS]
    before = {states.get("approve"), states.get("reassign")}  # if somebody has marked them failed, it is not to run
    if before == {"success"} and states.get("elect_leaders") == _PASSED_OVER:
        never.insert(0, "elect_leaders")
    if never:
        raise VerificationError(
            f"Airflow will not run {_listed(never)}: {', '.join(f'{task} is {states[task]}' for task in never)}. An "
            "earlier task failed, and they kept that state when it was cleared. So nobody has verified whether the run "
            f"reached the approved end. Clear {', '.join(never)} and this task."
        )


def was_passed_over(inputs: StepInputs, task: str) -> bool:
    """Whether Airflow did not run this earlier task; False if it does not tell."""
    states = inputs.deployment.other_runs.task_states(inputs.run.dag_id, inputs.run.run_id, [task])
    return (states or {}).get(task, "queued") not in _RUNS


def _passed_over(inputs: StepInputs, tasks: Sequence[str]) -> list[str]:
    states = inputs.deployment.other_runs.task_states(inputs.run.dag_id, inputs.run.run_id, tasks)
    if states is None:
        log.warning("Whether Airflow will run %s is not known", ", ".join(tasks))
    return [task for task in tasks if (states or {}).get(task) == _PASSED_OVER]


def _listed(tasks: Sequence[str]) -> str:
    return f"the task{'s' * (len(tasks) > 1)} {', '.join(tasks)}"
