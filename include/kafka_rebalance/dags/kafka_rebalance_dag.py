"""`kafka_rebalance`: snapshot a cluster, plan, wait for a person, move exactly what was approved, verify.

Each task calls one step (`kafka_rebalance.rebalance`). Tasks import heavy modules only when they run, so the Dag
processor stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import Param, XComArg, dag, task

import kafka_rebalance
from kafka_rebalance.model.settings import CANDIDATES, GIVE_BACK, JOBS, LOSSES, NEW, PREFERENCES, Settings
from kafka_rebalance.throttle.rates import AUTO
from kafka_rebalance.workflow.form_fields import (
    LARGEST_NUMBER,
    MOST_COPIES,
    MOST_REPLICAS,
    STARTED_BY_PEOPLE,
    TWO_HOURS_OF_RETRIES,
    choice,
    cluster,
    flag,
    number,
    optional,
    reason,
    several,
)
from kafka_rebalance.workflow.notices import FINISHED, Notice
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.operators.moves import HoldThrottleOperator, ReassignOperator
from kafka_rebalance.workflow.operators.submit import JobSubmitOperator
from kafka_rebalance.workflow.run_step import run_step

# The form of `kafka_rebalance`. Names are those of `Settings`. The form can only tighten the policy.


_DEFAULT = Settings()
_LIMITS, _BROKERS, _TOPICS, _PLAN, _TUNING = "Limits", "Brokers", "Topics", "A plan of your own", "Tuning"

REBALANCE_PARAMS: dict[str, Param] = {
    "kafka_conn_id": cluster(),
    "job": choice(
        (*JOBS, GIVE_BACK),
        _DEFAULT.job,
        "Job",
        "balance: balance replicas, disks and leaders. leaders: only re-order lists; with `drain`, these brokers lead "
        "nothing in the end. elect: elect preferred leaders and change no list. drain: empty brokers. "
        "replace: replace one broker by another. replication_factor: give topics another factor. relieve: only brokers "
        "above the band (or relieve_above) give. repair_racks: repair the rack rule only. replace_log_dir: "
        "replicas on log dirs that are offline go to other brokers, and nothing else moves. give_back: elect again the "
        "leaders that leaders with `drain` took away. `light` does no more than the job; `balanced` also balances.",
    ),
    "reason": reason(),
    "not_before": optional(
        "string",
        "Not before",
        "No batch begins earlier: the run waits. Give the zone: 2026-11-21T22:00:00+01:00.",
        _LIMITS,
        format="date-time",
    ),
    "finish_by": optional(
        "string",
        "Finish by",
        "No batch begins that may end later, by the slow end of its estimate. Give the zone.",
        _LIMITS,
        format="date-time",
    ),
    "outside_windows": flag(
        "Outside the windows",
        "Do not wait for the policy's windows: begin as soon as the run is approved. Not before and Finish by also "
        "take their place.",
        _LIMITS,
    ),
    "drain": several("Drain", "Ids of brokers to empty.", _BROKERS, kind="integer"),
    "replace": Param(
        {},
        type="object",
        title="Replace",
        description='{"old id": new id}: the new broker takes what the old one holds.',
        section=_BROKERS,
    ),
    "demote_run_id": optional(
        "string",
        "Demoted by",
        "For give_back: the run of job leaders with Drain. Empty: the one that was verified last.",
        _BROKERS,
    ),
    "brokers_out": several(
        "Brokers out", "Ids of brokers that keep what they have and receive nothing.", _BROKERS, kind="integer"
    ),
    "brokers_in": several(
        "Brokers in",
        'Ids of the brokers that alone receive replicas, or ["new"] for the brokers that hold no replica now. All '
        "others only give. Leaders may change on every broker. Empty: every broker may receive.",
        _BROKERS,
        kind="integer",
        items={"type": ["integer", "string"], "pattern": f"^{NEW}$"},
    ),
    "topics_in": several("Topics in", "Globs of topics that the run may change.", _TOPICS, ["*"]),
    "topics_out": several("Topics out", "Globs of topics that stay as they are.", _TOPICS),
    "topics_to_move": optional(
        "string",
        "Topics to move",
        "The JSON of kafka-reassign-partitions' --topics-to-move-json-file, instead of Topics in.",
        _TOPICS,
        format="multiline",
    ),
    "pinned_topics": several(
        "Pinned topics", "Globs of topics whose replicas stay on their brokers. Leaders may change.", _TOPICS
    ),
    "rack_pinned_topics": several(
        "Rack-pinned topics", "Globs of topics whose replicas move within their rack only.", _TOPICS
    ),
    "spread_leaders": several(
        "Spread leaders",
        "Globs of topics whose leaders spread evenly over the brokers. This costs leader changes of its own.",
        _TOPICS,
    ),
    "spread_topics": several(
        "Spread topics",
        "Globs of topics whose replicas spread evenly over the brokers. This copies bytes of its own.",
        _TOPICS,
    ),
    "leader_racks": several(
        "Leader racks",
        "Names of racks. Leaders are there where a list has a replica, spread evenly over their brokers. Those of the "
        "policy take the place of these.",
        _BROKERS,
    ),
    "survive": optional(
        "string",
        "Survive",
        "broker or rack: the loss of any one leaves no disk too full and no network too busy, in each batch and "
        "afterwards. Empty: what the policy says.",
        _LIMITS,
        pattern=f"^({'|'.join(LOSSES)})$",
    ),
    "internal_topics": flag(
        "Internal topics", "Move Kafka's own topics too, such as __consumer_offsets, if the policy allows it.", _TOPICS
    ),
    "replication_factor": optional(
        "integer",
        "Replication factor",
        "The new factor, for the job replication_factor.",
        _TOPICS,
        minimum=1,
        maximum=MOST_REPLICAS,
    ),
    "relieve_above": optional(
        "number",
        "Relieve above",
        "With 0.8, job relieve takes only from brokers whose disk is above 80 % of its capacity.",
        _LIMITS,
        exclusiveMinimum=0,
        exclusiveMaximum=1,
    ),
    "max_bytes": optional(
        "integer",
        "Bytes at most",
        "Bytes to copy. The policy's limit applies too.",
        _LIMITS,
        minimum=0,
        maximum=LARGEST_NUMBER,
    ),
    "max_leader_changes": optional(
        "integer",
        "Leader changes at most",
        "Partitions whose preferred leader changes.",
        _LIMITS,
        minimum=0,
        maximum=LARGEST_NUMBER,
    ),
    "throttle_bytes_per_second": Param(
        None,
        type=["null", "integer", "string"],
        minimum=1,
        maximum=LARGEST_NUMBER,
        pattern=f"^{AUTO}$",
        title="Throttle (bytes/s per broker)",
        description="Within the policy's range. Empty: the policy's maximum. auto: the free rate of the brokers' "
        "networks; the connection must have their capacities. The approver may change it.",
        section=_LIMITS,
    ),
    "throttle_from_bytes_per_second": optional(
        "integer",
        "Throttle from (bytes/s per broker)",
        "Makes the throttle a range, with Throttle as its high end. The run begins at this rate, and changes each "
        "broker's rate by what it sees of the cluster. Empty: one rate.",
        _LIMITS,
        minimum=1,
        maximum=LARGEST_NUMBER,
    ),
    "copies_per_broker": number(
        _DEFAULT.copies_per_broker,
        "Copies per broker",
        "How many replicas one broker sends or receives at the same time. 0: 10, and up to 20 where these make the run "
        "shorter.",
        _LIMITS,
        minimum=0,
        maximum=MOST_COPIES,
    ),
    "plan": optional(
        "string",
        "Plan",
        "The JSON of kafka-reassign-partitions, or the whole output of its --generate. The run checks it and "
        'scores it beside its own candidates. People can approve it like them. Its log_dirs may only say "any".',
        _PLAN,
        format="multiline",
    ),
    "plan_path": optional(
        "string",
        "Plan file",
        "A file below the plans folder ([kafka_rebalance] plans_folder), instead of a pasted plan.",
        _PLAN,
    ),
    "candidates": several(
        "Candidates",
        "What to compute. as_kafka shows what kafka-reassign-partitions --generate would propose. With a plan you may "
        "choose none: then the run judges only that plan.",
        _TUNING,
        _DEFAULT.candidates,
        items={"enum": list(CANDIDATES)},
        examples=list(CANDIDATES),
    ),
    "prefer": choice(
        PREFERENCES,
        _DEFAULT.prefer,
        "Prefer",
        "Which candidate the run recommends. tolerance: the cheapest that ends within the tolerance. "
        "fewest_bytes: the cheapest that does the job. The policy may ask for fewest_bytes too.",
        _TUNING,
    ),
    "even_at_worst_hour": flag(
        "Even at the worst hour",
        "Bytes in are those of the hour of the week in which the cluster takes most, not each partition's own 95th "
        "percentile. The ledger needs a sample an hour, for two weeks. The policy may ask for it too.",
        _TUNING,
    ),
    "copies_within_racks": flag(
        "Copies within racks",
        "Bytes copied between racks count twice in the search. A copy comes from the leader. So with a replica "
        "in every rack this changes more leaders. The policy may ask for it too.",
        _TUNING,
    ),
    "tolerance": number(
        _DEFAULT.tolerance,
        "Tolerance",
        "With 0.10, candidate `balanced` brings every resource within 10 % of the reachable mean.",
        _TUNING,
        exclusiveMinimum=0,
        exclusiveMaximum=1,
    ),
    "seed": number(_DEFAULT.seed, "Seed", "The same seed gives the same plan.", _TUNING, minimum=0, maximum=2**32 - 1),
}


APPROVAL = "kafka_rebalance.rebalance.request.CandidateApproval"
JOB = Path(kafka_rebalance.__file__).parent / "spark" / "job.py"
RUN_FOLDER = "{{ ti.xcom_pull(task_ids='snapshot', key='run_folder') }}"
NONCE = "{{ ti.xcom_pull(task_ids='snapshot', key='nonce') }}"
RUN = "{{ dag_run.dag_id }}/{{ dag_run.run_id }}"  # not from an XCom: people can edit XComs
METRICS = "{{ ti.xcom_pull(task_ids='snapshot', key='metrics') }}"
# A task with this rule has `approve` directly before it. It runs once something was approved, even if tasks have failed
# since. "all_done" would also run if nothing was approved.
AFTER_APPROVAL = "all_done_min_one_success"


def _check_arguments(context: Any) -> None:
    check = "kafka_rebalance.rebalance.spark_checks.check_spark_arguments"
    run_step(check, context["dag_run"], context["task"])


@dag(
    dag_id="kafka_rebalance",
    description="Rebalance one Kafka cluster: plan, approval, reassignment, verification.",
    params=REBALANCE_PARAMS,
    doc_md=__doc__,
    **STARTED_BY_PEOPLE,
)
def rebalance() -> None:
    @task(retries=2)
    def snapshot(params: Any = None, dag_run: Any = None, ti: Any = None) -> dict[str, Any]:
        run_step("kafka_rebalance.rebalance.spark_checks.check_one_version", dag_run)
        return run_step("kafka_rebalance.rebalance.snapshot.take_snapshot", dag_run, params, ti=ti)

    @task(retries=2)
    def render_report(run_folder: str, dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.rebalance.report.render_report", dag_run, run_folder)

    # ZooKeeper may be away, and copies in flight may end. The janitor keeps the lease.
    @task(**TWO_HOURS_OF_RETRIES)
    def release_throttle(decision: dict[str, Any], dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.throttle.release_throttle.release_throttle", dag_run, decision)

    @task(retries=2)
    def elect_leaders(decision: dict[str, Any], dag_run: Any = None) -> list[str]:
        return run_step("kafka_rebalance.rebalance.elect_leaders.elect_leaders", dag_run, decision)

    @task(retries=3, trigger_rule=AFTER_APPROVAL)
    def verify(decision: dict[str, Any], dag_run: Any = None) -> dict[str, int]:
        return run_step("kafka_rebalance.rebalance.verify.verify", dag_run, decision)

    @task(retries=3)
    def check_verified(dag_run: Any = None) -> None:
        run_step("kafka_rebalance.rebalance.verify.check_verified", dag_run)

    @task(retries=2, trigger_rule=AFTER_APPROVAL, on_success_callback=Notice(FINISHED))
    def record(decision: dict[str, Any], dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.rebalance.verify.record", dag_run, decision)

    taken = snapshot()
    run_folder = XComArg(taken.operator, key="run_folder")
    nonce = XComArg(taken.operator, key="nonce")
    planned = JobSubmitOperator(
        task_id="plan",
        application=str(JOB),
        application_args=[
            *("--snapshot", f"{RUN_FOLDER}/snapshot"),
            *("--out", RUN_FOLDER),
            *("--settings", f"{RUN_FOLDER}/settings.json"),
            *("--metrics", METRICS),
            *("--expect-nonce", NONCE),
            *("--expect-run", RUN),
        ],
        name="kafka_rebalance plan",
        pre_execute=_check_arguments,
        retries=1,
    )
    reported = render_report(run_folder)
    approved = ApprovalOperator(task_id="approve", approval=APPROVAL, run_folder=run_folder, nonce=nonce)
    decision = XComArg(approved, key="decision")
    # Airflow runs no teardown after a setup that was killed half-way: only a retry puts the throttle back.
    held = HoldThrottleOperator(task_id="hold_throttle", decision=decision, retries=2)
    moved = ReassignOperator(task_id="reassign", decision=decision, retries=5, retry_exponential_backoff=2)
    released = release_throttle(decision).as_teardown(setups=held, on_failure_fail_dagrun=True)
    elected = elect_leaders(decision)
    verified = verify(decision)
    # If a person marks the whole run, Airflow skips all but teardowns, and a run whose last task is skipped is green.
    checked = check_verified().as_teardown(setups=held, on_failure_fail_dagrun=True)
    recorded = record(decision)

    taken >> planned >> reported >> approved >> held >> moved >> released
    moved >> elected
    [approved, elected, released] >> verified
    released >> checked
    [approved, verified] >> recorded


DAG = rebalance()
