"""What `kafka.reassignment_json` was called for a time. Notebooks may still name it."""

from __future__ import annotations

from kafka_rebalance.kafka.reassignment_json import parse_log_dirs, parse_reassignment, parse_topics_to_move

__all__ = ["parse_log_dirs", "parse_reassignment", "parse_topics_to_move"]
