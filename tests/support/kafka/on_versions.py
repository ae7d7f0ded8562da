"""On which versions of Kafka a test of a shared cluster runs, where one of each would show nothing more.

What differs lies between 2.0.1 and the two others: those keep a topic's id, and which replicas a move adds and removes,
in its znode, and carry a request out by the same steps. So `make test` takes the oldest and the newest, and
`make test-long` the one in between as well. What is decided before anything is written shows on any one version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import KRAFT_VERSIONS, VERSIONS


def in_make_test(all_of_them: Iterable[str], *versions: str) -> list[Any]:
    """Params of all versions. `make test` takes `versions`, and `make test-long` the others."""
    return [one if one in versions else pytest.param(one, marks=pytest.mark.long) for one in all_of_them]


def _on(*versions: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cluster", versions, indirect=True)


NEWEST, OLDEST = _on(VERSIONS[0]), _on(VERSIONS[-1])
BOTH_KINDS = _on(VERSIONS[0], VERSIONS[-1])

OLDEST_AND_NEWEST = in_make_test(VERSIONS, VERSIONS[0], VERSIONS[-1])
ON_OLDEST_AND_NEWEST = _on(*OLDEST_AND_NEWEST)

# With ZooKeeper and without, through the same door. `make test-long` takes the other version without ZooKeeper too.
_NEWEST_KRAFT, _OTHER_KRAFT = (f"{version}-kraft" for version in KRAFT_VERSIONS)
_KRAFT = (_NEWEST_KRAFT, pytest.param(_OTHER_KRAFT, marks=pytest.mark.long))
EACH_KIND, NEWEST_OF_EACH_KIND = _on(VERSIONS[-1], *_KRAFT), _on(VERSIONS[0], *_KRAFT)
EACH_KIND_AND_NEWEST = _on(VERSIONS[-1], VERSIONS[0], *_KRAFT)
WITHOUT_ZOOKEEPER_ALONE = _on(*_KRAFT)

# The `kraft` in a test's name keeps it out of the group of its version with ZooKeeper: it has a cluster of its own.
WITHOUT_ZOOKEEPER = [pytest.param(version, id=f"{version}-kraft") for version in KRAFT_VERSIONS]
# What our own code does by answers that both versions give alike shows on the newest. `make test-long` takes both.
NEWEST_WITHOUT_ZOOKEEPER = [
    pytest.param(version, id=f"{version}-kraft", marks=() if version == KRAFT_VERSIONS[0] else pytest.mark.long)
    for version in KRAFT_VERSIONS
]


def without_zookeeper(brokers: int, controllers: int = 0) -> Any:
    """A fixture: a cluster that the tests of a module share. With no controllers the brokers are the quorum."""

    @pytest.fixture(scope="module", params=NEWEST_WITHOUT_ZOOKEEPER)
    def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
        with LocalCluster(request.param, brokers=brokers, racks=0, kraft=True, controllers=controllers) as running:
            yield running

    return cluster
