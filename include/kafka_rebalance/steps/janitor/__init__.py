"""The Dag kafka_throttle_janitor: what runs have left behind, and who takes it off."""
