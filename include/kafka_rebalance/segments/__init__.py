"""Which settings roll segments, and whether those of a cluster are sound."""
