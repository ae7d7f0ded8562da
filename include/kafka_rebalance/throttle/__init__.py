"""The throttle of a cluster: which rates, the lease that records what was there, taken, changed and put back."""
