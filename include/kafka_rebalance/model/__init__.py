"""Values that every other room speaks in: partitions, brokers, moves, settings, policy, files. Stdlib only."""
