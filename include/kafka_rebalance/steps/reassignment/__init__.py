"""The approved batches, one after the other: request, follow, wait, elect."""
