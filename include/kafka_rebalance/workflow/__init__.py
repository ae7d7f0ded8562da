"""Everything that needs Airflow: operators, triggers, forms, notices and web pages. A task is one call of a step."""
