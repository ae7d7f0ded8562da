"""The values that all rooms use: partitions, brokers, moves, settings, policy. Only the standard library."""
