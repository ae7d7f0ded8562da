"""The planner and the keys job on Spark, and what each step of a plan costs."""
