"""What is done to a cluster, one module a step, and what a step is given. Nothing here knows Airflow."""
