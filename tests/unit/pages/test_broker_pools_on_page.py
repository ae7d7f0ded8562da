"""The page says which brokers alone hold which topics."""

from __future__ import annotations

import dataclasses

from kafka_rebalance.model.settings import BrokerPool
from kafka_rebalance.pages.page import render_file
from support.documents import report_samples as samples
from support.documents.built_report import planned


def test_the_limits_name_each_pool_with_its_brokers() -> None:
    pools = (BrokerPool(("billing.*", "<b>"), (1, 2)), BrokerPool(("audit",), (3,)))
    policy = dataclasses.replace(samples.policy(), broker_pools=pools)
    snapshot = samples.snapshot(policy=policy.to_mapping(), policy_digest=policy.digest)
    page = render_file(planned(snapshot=snapshot, rates=samples.rates()))
    assert "<li>Broker pool: only brokers 1, 2 may hold topics billing.*, &lt;b&gt;, and no other topics.</li>" in page
    assert "<li>Broker pool: only broker 3 may hold topics audit, and no other topics.</li>" in page
    assert "<li>All other topics share the brokers of no pool.</li>" in page
