"""Whether all brokers run the same version, and one that moves replicas between log dirs without harm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_rebalance.model.configs import ConfigsByBroker
from kafka_rebalance.model.finding import Finding, listed

ApiVersions = Mapping[int, Mapping[int, tuple[int, int]]]  # broker -> key of the request -> oldest and newest version
PROTOCOL = "inter.broker.protocol.version"
ELECT_LEADERS = 43  # key of a request that every broker knows from Kafka 2.2 on (KIP-183)


def mixed_versions(configs: ConfigsByBroker, apis: ApiVersions) -> Iterable[Finding]:
    """Brokers of different versions: a rolling upgrade is under way.

    In the first round of an upgrade all have the same `inter.broker.protocol.version`, and only the software differs.
    The versions of the requests that brokers speak show that. Releases that speak the same versions look the same.
    """
    protocols: dict[str, list[int]] = {}
    for broker, values in sorted(configs.items()):
        if (version := values.get(PROTOCOL, (None, ""))[0]) is not None:
            protocols.setdefault(version, []).append(broker)
    remedy = "Wait until the rolling upgrade has ended, then clear this task"
    if len(protocols) > 1:
        said = "; ".join(f"{version} on broker {listed(brokers)}" for version, brokers in sorted(protocols.items()))
        yield Finding("brokers", f"they run different {PROTOCOL}: {said}", remedy)
    speaking: dict[frozenset[tuple[int, tuple[int, int]]], list[int]] = {}
    for broker, spoken in sorted(apis.items()):
        speaking.setdefault(frozenset(spoken.items()), []).append(broker)
    if len(speaking) > 1:
        said = "; ".join(f"broker {listed(brokers)}" for brokers in speaking.values())
        different = frozenset.union(*speaking) - frozenset.intersection(*speaking)
        yield Finding(
            "brokers",
            f"they run different software: {said} speak different versions of "
            f"{len({key for key, _ in different})} of Kafka's requests",
            remedy,
        )


def harmed_by_copies_within(apis: ApiVersions) -> Iterable[Finding]:
    """Brokers below Kafka 2.2, on which a move between log dirs may cost a log dir.

    In 2.0.1 and 2.1.0 a replica keeps the epochs' file of the folder that it has left (Replica.epochs). When it becomes
    leader, the broker writes there (Partition.makeLeader), fails, and takes that log dir offline. No request tells
    2.1.0 from 2.1.1, which is sound.
    """
    older = sorted(broker for broker, spoken in apis.items() if ELECT_LEADERS not in spoken)
    if older:
        yield Finding(
            f"broker {listed(older)}",
            "runs a Kafka below 2.2. When a replica that was moved between log dirs becomes leader, Kafka 2.0.1 and "
            "2.1.0 take the log dir offline in which it lay before",
            "Upgrade to Kafka 2.2 or later first",
        )
