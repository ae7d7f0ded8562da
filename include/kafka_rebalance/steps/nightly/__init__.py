"""The nightly check, which never writes, and what it proposes."""
