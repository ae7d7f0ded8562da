"""The Dags of kafka-rebalance. Airflow's Dag processor reads only files that name airflow and a Dag."""

from kafka_rebalance.dags import *  # noqa: F403
