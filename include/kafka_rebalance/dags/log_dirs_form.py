"""The form of `kafka_log_dirs`."""

from __future__ import annotations

from airflow.sdk import Param

from kafka_rebalance.log_dirs.asked_log_dirs import BALANCE, COPIES_PER_BROKER, JOBS, TOLERANCE
from kafka_rebalance.workflow.form_fields import (
    LARGEST_ID,
    LARGEST_NUMBER,
    MOST_COPIES,
    choice,
    cluster,
    flag,
    number,
    optional,
    reason,
)

_LIMITS = "Limits"

LOG_DIRS_PARAMS: dict[str, Param] = {
    "kafka_conn_id": cluster(),
    "job": choice(
        JOBS,
        BALANCE,
        "Job",
        "balance: even bytes over the log dirs of each broker. drain: empty one log dir. way_back: take back the moves "
        "of an earlier run.",
    ),
    "reason": reason(),
    "broker": optional(
        "integer",
        "Broker",
        "drain: its id. balance: only this broker. Empty: each broker.",
        minimum=0,
        maximum=LARGEST_ID,
    ),
    "log_dir": optional("string", "Log dir", "drain: the path to empty, as log.dirs of that broker names it."),
    "of_run": optional("string", "Earlier run", "way_back: the run id of that run of kafka_log_dirs."),
    "tolerance": number(
        TOLERANCE,
        "Tolerance",
        "balance: 0.1 makes each log dir hold its share of the broker's bytes ± 10 %.",
        _LIMITS,
        minimum=0,
        maximum=1,
    ),
    "throttle_bytes_per_second": optional(
        "integer",
        "Throttle (bytes/s)",
        "Of all copies within one broker together. Empty: the highest that the policy allows.",
        _LIMITS,
        minimum=1,
        maximum=LARGEST_NUMBER,
    ),
    "copies_per_broker": number(
        COPIES_PER_BROKER,
        "Copies per broker",
        "How many replicas of one broker copy at once.",
        _LIMITS,
        minimum=1,
        maximum=MOST_COPIES,
    ),
    "outside_windows": flag(
        "Outside the windows",
        "Do not wait for the policy's windows: begin as soon as the run is approved. A way_back never waits for them.",
        _LIMITS,
    ),
    "internal_topics": flag(
        "Internal topics", "Move Kafka's own topics too, if the policy allows it. A drain usually needs it.", _LIMITS
    ),
}
