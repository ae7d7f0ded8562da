"""segments.json of the sample's candidates, audited for real."""

from __future__ import annotations

from typing import Any

from kafka_rebalance.segments.audit import audit_cluster, audit_moves
from kafka_rebalance.segments.open_files import files_now
from support.documents import report_samples as samples
from support.documents.as_in_a_file import in_json
from support.documents.segment_configs import configs, placed, reported

TOPIC = "orders.payments.authorised"
SMALL_SEGMENTS = {"segment.bytes": 100_000, "max.message.bytes": 50_000, "retention.ms": -1}  # its copies cannot end


def segments(topics: dict[str, dict[str, Any]], brokers: Any = None) -> dict[str, Any]:
    """With these configs of the topics, and of brokers where they differ from Kafka's defaults."""
    others = {broker: reported() for broker in (5, 6)}
    known = configs({TOPIC: dict[str, Any]()} | topics, others | (brokers or {}))
    partitions = [placed(f"{topic}-0", (1, 2, 3)) for topic in topics if topic != TOPIC]
    partitions += [placed(str(m.topic_partition), m.before, m.size_bytes) for m in samples.all_moves()["balanced"]]
    now = files_now(partitions, known)
    candidates = {name: in_json(audit_moves(moves, now, known, 100)) for name, moves in samples.all_moves().items()}
    return {"format_version": 1, **in_json(audit_cluster(partitions, known)), "candidates": candidates}
