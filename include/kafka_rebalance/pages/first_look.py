"""The words of `kafka-rebalance check` and `explain`, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.pages.approver_facts import TIERED, brief, tiered_words
from kafka_rebalance.pages.candidate_report import CandidateReport
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.units import about, format_bytes, format_count, format_factor
from kafka_rebalance.pages.why_recommended import less_even_words, recommendation_words

_GAP = "  "
_DEFAULT = Policy(())


def check_lines(report: RunReport) -> tuple[str, ...]:
    """What is wrong with the cluster, what is recommended, and the candidates."""
    tiers = () if report.tiered is None else (f"{TIERED}: {tiered_words(report.tiered, str)}",)
    return (_cluster(report), *tiers, *brief(report).why, *recommendation_words(report), "", *_candidates(report))


def explain_lines(report: RunReport, name: str) -> tuple[str, ...]:
    """What this candidate does to the cluster, beside the others."""
    (asked,) = (one for one in report.candidates if one.name == name)
    said = [_cluster(report), f"{asked.title}: {asked.status}. {asked.note}".rstrip()]
    said += [bound] if (bound := report.bound_of(asked)) else []
    said += [warning] if (warning := less_even_words(asked)) else []
    return (*said, "", *_spreads(asked), "", *_candidates(report))


def lines_of_terms(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """What makes this plan another one than that of a run of `kafka_rebalance`, and what to do about it."""
    rate = format_bytes(settings["throttle_bytes_per_second"] or 0)
    history = (
        "A run also uses what the ledger knows of earlier days: rates, growth, the last proposal. With the same bytes "
        "and leaders, and without a ledger, its plan is this one."
    )
    if settings.get("policy_digest") is not None:
        return (f"Planned with the policy given, at {rate} a second of each broker, as a run plans. {history}",)
    return (
        f"Planned without a policy, at {rate} a second of each broker. A run keeps the policy of its cluster: at most "
        f"{share_in_words(_DEFAULT.max_bytes_share)} of the cluster's bytes by default, its topics, pins, pools and "
        "brokers, and its highest throttle. So a run may recommend another plan. Plan as it does with --policy FILE.",
        history,
    )


def _cluster(report: RunReport) -> str:
    return (
        f"Cluster {report.cluster_id}: {format_count(report.brokers, 'broker', 'brokers')}, "
        f"{format_count(report.partitions, 'partition', 'partitions')}, {format_bytes(report.cluster_bytes)}"
    )


def _spreads(candidate: CandidateReport) -> list[str]:
    rows = [
        (metric.noun, format_factor(before.max_over_mean), format_factor(after.max_over_mean))
        for metric, before, after in candidate.spreads
        if before is not None and after is not None
    ]
    return _aligned(("highest broker against its share", "before", "after"), rows)


def _candidates(report: RunReport) -> list[str]:
    rows = [
        (
            f"{one.name}{' *' if one.name == report.recommended else ''}",
            format_bytes(one.moved_bytes),
            format_bytes(one.moved_bytes_bound),
            format_count(one.partitions),
            format_count(one.leader_changes),
            "unknown" if one.planned_seconds is None else about(one.planned_seconds),
            one.status,
        )
        for one in report.candidates
    ]
    heads = ("candidate (* recommended)", "copies", "least", "partitions", "new leaders", "takes", "status")
    return _aligned(heads, rows)


def _aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return [_GAP.join(map(str.ljust, row, widths)).rstrip() for row in (heads, *rows)]
