"""Airflow alone: what the Dags, their tasks and the web pages need of it. A task is one call of a step."""
