"""The forms on which the Dags are triggered."""
