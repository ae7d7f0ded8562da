"""One run: the approved plan, the lock, and what can stop a write."""
