"""What is done to a cluster: one module for each step, and the inputs of a step. Nothing here knows Airflow."""
