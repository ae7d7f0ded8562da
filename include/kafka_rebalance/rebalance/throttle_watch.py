"""While a run follows a batch: looks from time to time whether the throttle of its copies is in force."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.errors import ArtifactError, CorruptZnodeError, ReadError
from kafka_rebalance.model.cluster_view import AnyView
from kafka_rebalance.moves.move_progress import PartitionProgress, Phase
from kafka_rebalance.rebalance.batch_finding import FindingKind
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.throttle.entity_configs import read_away, read_configs
from kafka_rebalance.throttle.lease_files import rate_in_force, read_copy
from kafka_rebalance.throttle.lifted_by_others import LOOK_SECONDS, lifted, lifted_text
from kafka_rebalance.throttle.wanted import desired_throttle


class ThrottleWatch:
    """Keeps the finding of the last look until the next one is due."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._looked_at: float | None = None
        self._found: dict[FindingKind, str] = {}

    def look(
        self, cluster: OpenCluster, now: float, view: AnyView, each: Sequence[PartitionProgress]
    ) -> dict[FindingKind, str]:
        """What is wrong with the throttle of the moves that are not done; empty if it is in force."""
        moves = [
            one.move for one in each if one.phase is not Phase.DONE and one.move.topic_partition in view.partitions
        ]
        if not any(move.added for move in moves):
            return {}
        if self._looked_at is not None and 0 <= now - self._looked_at < LOOK_SECONDS:
            return self._found
        self._looked_at = now
        try:
            lease, rate = read_copy(self._folder), rate_in_force(self._folder)
            own_rates = frozenset((str(rate),)) if lease is None else lease.own_rates
            desired = desired_throttle(moves, rate)
            away = read_away(cluster, desired)
            wanted = {entity: values for entity, values in desired.items() if entity not in away}
            found = lifted(wanted, own_rates, read_configs(cluster, wanted))
            self._found = {FindingKind.THROTTLE_LIFTED: lifted_text(found)} if found else {}
        except CorruptZnodeError as unreadable:
            self._found = {FindingKind.THROTTLE_LIFTED: f"It is unknown whether the throttle is in force: {unreadable}"}
        except ArtifactError:
            pass  # the run's folder may be readable at the next look
        except ReadError:
            self._looked_at = None  # a broker has just gone away: the next look asks again, or knows that it is away
        return self._found
