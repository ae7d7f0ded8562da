"""The operators that wait for an answer, for Spark or for copies."""
