"""All Dags: `from kafka_rebalance.dags import *` in a file of Airflow's Dag folder adds them."""

from kafka_rebalance.dags.kafka_balance_check_dag import DAG as balance_check
from kafka_rebalance.dags.kafka_ledger_dag import DAG as ledger
from kafka_rebalance.dags.kafka_log_dirs_dag import DAG as log_dirs
from kafka_rebalance.dags.kafka_rebalance_cancel_dag import DAG as rebalance_cancel
from kafka_rebalance.dags.kafka_rebalance_dag import DAG as rebalance
from kafka_rebalance.dags.kafka_throttle_janitor_dag import DAG as throttle_janitor
from kafka_rebalance.dags.kafka_topics_dag import DAG as topics

__all__ = ["balance_check", "ledger", "log_dirs", "rebalance", "rebalance_cancel", "throttle_janitor", "topics"]
