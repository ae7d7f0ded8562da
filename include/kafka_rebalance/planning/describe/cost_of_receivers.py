"""What it costs that only some brokers receive replicas: in evenness, and in bytes beside the bound without that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kafka_rebalance.model.amounts_in_words import bytes_in_words, share_in_words
from kafka_rebalance.model.finding import listed
from kafka_rebalance.planning.problem.arrays import Floats, Problem
from kafka_rebalance.planning.problem.loads import DISK, METRICS, REPLICA_METRICS, known_metrics
from kafka_rebalance.planning.problem.pools import parts_of
from kafka_rebalance.planning.search.frame import FoundLists, frame_of

_MATTERS = 0.01  # of a load: figures in words hide a smaller difference


def cost_of_receivers(problem: Problem, found: FoundLists, bound: Callable[..., int]) -> list[str]:
    """A clause of the candidate's note, with pools of each; none if all may receive, or if the limit costs nothing.

    `bound` gives the bound on bytes of a problem, of lists with its targets, and of the bytes where disks are `after`.
    """
    if problem.only_receivers is None or not (found.goal.balances and found.goal.searched):
        return []
    if problem.pools is not None:
        return [
            f"in the pool of {part.name}: {clause}"
            for part, own in zip(parts_of(problem), found.parts, strict=True)
            for clause in cost_of_receivers(part.problem, own, bound)
        ]
    open_to_all = replace(problem, only_receivers=None)
    frame = frame_of(open_to_all, found.goal, found.wanted)
    here = problem.evened[:, None] & (frame.targets > 0)
    known = known_metrics(problem)
    asked = np.array([metric in known for metric in REPLICA_METRICS])
    ratio = np.divide(found.targets, frame.targets, out=np.ones_like(frame.targets), where=here & asked)
    metric = int(np.abs(ratio - 1).max(axis=0).argmax())
    lowest, highest = (float(ratio[:, metric].min()), float(ratio[:, metric].max()))
    if max(1 - lowest, highest - 1) <= _MATTERS:
        return []
    lists = replace(found, targets=frame.targets, relief=frame.relief)
    fewest = bound(open_to_all, lists, after=_disks(frame.targets, found.scale))
    ids = problem.brokers[problem.receivers].tolist()
    who = (
        f"only broker{'s' * (len(ids) > 1)} {listed(ids[:10])}{' and others' * (len(ids) > 10)}" if ids else "no broker"
    )
    return [
        f"{who} may receive ({problem.settings.receivers_setting}): with all brokers the bound within "
        f"{share_in_words(found.goal.tolerance)} would be {bytes_in_words(fewest)}, and as it is, brokers end at best "
        f"with {share_in_words(lowest)} to {share_in_words(highest)} of the {METRICS[metric].noun} they would have then"
    ]


def _disks(targets: Floats, scale: Floats) -> Floats:
    disks: Floats = targets[:, DISK] * scale[DISK]
    return disks
