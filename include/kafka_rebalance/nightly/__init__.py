"""The nightly check, which never writes, and what it proposes; the daily removal of what is old."""
