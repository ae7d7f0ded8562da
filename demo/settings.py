"""What the demo on this machine and the demo in containers have in common."""

from __future__ import annotations

from pathlib import Path

CONNECTION = "kafka_demo"
POLICIES = Path(__file__).parent / "policies"  # its policy names the approver and the throttle
REQUESTER, APPROVER = "olive", "uma"
THROTTLE = 40_000_000
DATA_BYTES = 480_000_000  # of all replicas together: more than 200 MB of data with two or three replicas
TOLERANCE = 0.1
