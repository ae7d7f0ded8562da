"""The throttle of a cluster: taken, changed, put back, and swept up by the janitor."""
