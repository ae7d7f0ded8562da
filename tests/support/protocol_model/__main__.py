"""Searches the large configurations, prints the states of each, and fails with the shortest way to what is broken."""

from __future__ import annotations

import sys
import time

from support.protocol_model.configurations import large
from support.protocol_model.search import search

broken, states, began = 0, 0, time.monotonic()
for protocol in large():
    found = search(protocol)
    states, broken = states + found.states, broken + bool(found.broken)
    sys.stdout.write(f"{protocol}\n  {found}\n")
    sys.stdout.flush()
sys.stdout.write(f"{states:,} states in {time.monotonic() - began:.0f} s, {broken} configurations broken\n")
sys.exit(bool(broken))
