"""The Dag kafka_throttle_janitor: finds and removes what runs have left behind."""
