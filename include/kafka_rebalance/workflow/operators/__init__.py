"""The tasks that wait: for an answer, for Spark, for copies."""
