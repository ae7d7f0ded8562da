"""Clocks of our own processes. No library is at hand that shifts a whole process: `product.py` shifts Python's."""

from __future__ import annotations

from faults.strikes.scene import Scene, Struck

DAY_SECONDS = 86_400


def ahead(scene: Scene) -> Struck:
    return _shift(scene, DAY_SECONDS)


def behind(scene: Scene) -> Struck:
    return _shift(scene, -DAY_SECONDS)


def _shift(scene: Scene, seconds: int) -> Struck:
    """Those that are started from now on: before the run that is all; in mid-copy the one that follows is killed."""
    scene.ours.shift_clock(seconds)
    what = f"clocks {'ahead' if seconds > 0 else 'behind'} by {abs(seconds) // 3600} h"
    return Struck(what, scene.ours.kill)
