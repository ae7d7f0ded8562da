"""What every approved change has: its folder, request and answer, checks before a write, lock, ledger."""
