"""The throttle of a cluster: taken, changed, suspended, put back."""
