"""Shifts the clocks of our own processes. No library shifts a whole process, so `product.py` shifts Python's clock."""

from __future__ import annotations

from faults.strikes.scene import Scene, Struck

DAY_SECONDS = 86_400


def shift(scene: Scene, seconds: int) -> Struck:
    """Shifts the clocks of processes that start from now on. In mid-copy it also kills the process at work."""
    scene.ours.shift_clock(seconds)
    what = f"clocks {'ahead' if seconds > 0 else 'behind'} by {abs(seconds) // 3600} h"
    return Struck(what, scene.ours.kill)
