"""What an approver decides by, beside the candidates' figures: documents of the run's folder as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_rebalance.documents.json_files import RATES, REJECTION
from kafka_rebalance.documents.json_object import Document
from kafka_rebalance.documents.rejection import Rejection, read_rejection
from kafka_rebalance.execution.check.automatic_elections import AutomaticElections
from kafka_rebalance.execution.time_window import Window
from kafka_rebalance.report.candidate.client_cost import Cost, read_costs
from kafka_rebalance.report.run.diagnosis import Outlook, read_outlook


@dataclass(frozen=True, slots=True)
class Deciding:
    """None and nothing: a version made the run that did not write it, or it is not written yet."""

    outlook: Outlook | None = None
    window: Window = field(default_factory=Window)
    costs: Mapping[str, Cost] = field(default_factory=dict)  # by candidate
    rejection: Rejection | None = None
    automatic_elections: AutomaticElections | None = None


def read_deciding(
    snapshot: Document,
    plan: Document | None,
    rates: Mapping[str, object] | None,
    rejection: Mapping[str, object] | None,
) -> Deciding:
    """Raises ArtifactError for a missing or wrong value."""
    window = snapshot.optional_part("window")
    elections = snapshot.optional_part("automatic_elections")
    return Deciding(
        outlook=read_outlook(plan) if plan is not None else None,
        window=Window(window.optional_time("not_before"), window.optional_time("finish_by")) if window else Window(),
        costs=read_costs(Document.of(RATES, rates)) if rates is not None else {},
        rejection=read_rejection(Document.of(REJECTION, rejection)) if rejection is not None else None,
        automatic_elections=_automatic_elections(elections) if elections else None,
    )


def _automatic_elections(part: Document) -> AutomaticElections:
    seconds = part.content.get("check_seconds")
    known = None if seconds is None else part.count("check_seconds")
    return AutomaticElections(tuple(int(broker) for broker in part.texts("brokers")), known)
