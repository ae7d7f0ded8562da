"""The request of a rebalance: a person approves one of its best candidates, or rejects all."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.storage import is_there
from kafka_rebalance.errors import ApprovalError, ArtifactError, RebalanceError
from kafka_rebalance.model.amounts_in_words import bytes_in_words
from kafka_rebalance.model.candidate import OFFERED, Status
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.rebalance.read_report import read_report
from kafka_rebalance.rebalance.rebalance import approval_body, approval_subject
from kafka_rebalance.rebalance.render_report import write_last_report
from kafka_rebalance.run.approval_request import Approval, Offer, RunLinks
from kafka_rebalance.run.approval_rules import REJECT, Answer, Question, on_buttons
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.run.running_rebalance import held_digest
from kafka_rebalance.throttle.rates import CandidateRates
from kafka_rebalance.throttle.run_rates import read_rates

log = logging.getLogger(__name__)


class CandidateApproval(Approval):
    """The approver may change the throttle within the policy's range."""

    behind = ("hold_throttle", "reassign", "release_throttle", "elect_leaders", "verify", "check_verified", "record")
    shown = (
        *(json_files.SNAPSHOT, json_files.SETTINGS, json_files.PROPOSALS, json_files.SEGMENTS),
        *(json_files.RATES, json_files.ESTIMATE, json_files.REJECTION),
        f"{json_files.SNAPSHOT_FOLDER}/{json_files.CONFIGS}",
    )

    def offer(self, folder: RunFolder) -> Offer:
        proposals = json_files.read_json(folder, json_files.PROPOSALS)
        snapshot = json_files.read_json(folder, json_files.SNAPSHOT)
        stopped = stopped_candidates(folder, proposals)
        digests = offered_digests(proposals, stopped)
        moving = any(
            c["moved_replicas"] or c["leader_changes"] or c["batches"]
            for c in proposals["candidates"]
            if c["name"] in digests
        )
        failed = {c["name"]: c["note"] for c in proposals["candidates"] if c["status"] == Status.FAILED}
        nothing = None if moving or stopped or failed else "No candidate moves anything. Nothing was written."
        return Offer(
            connection_id=snapshot["connection_id"],
            policy_digest=snapshot["policy_digest"],
            digests={name: digests[name] for name in on_buttons(digests, proposals.get("ranking", ()))},
            source_digest=digest_of(proposals),
            asked=snapshot,
            cluster_id=snapshot["cluster_id"],
            nothing=nothing,
            refused=None if moving or not (stopped or failed) else _refusal(stopped, failed),
            read_only=_read_only(snapshot["connection_id"], snapshot.get("missing_rights", ())),
        )

    def texts(self, folder: RunFolder, links: RunLinks) -> tuple[str, str]:
        report = read_report(folder)
        return approval_subject(report), approval_body(report, link=links.page, picture=links.picture)

    def questions(self, folder: RunFolder, offer: Offer, policy: Policy) -> tuple[Question, ...]:
        found = read_rates(folder)
        rates = [found[name] for name in offer.digests if name in found]
        viable = min((rate.least_bytes_per_second for rate in rates), default=1)
        why = next((f" Automatic: {rate.why}." for rate in rates if rate.why is not None), "")
        most = policy.max_throttle_bytes_per_second
        least = min(most, max(policy.min_throttle_bytes_per_second, viable))
        throttle = Question(
            "throttle_bytes_per_second",
            "Throttle (bytes/s per broker)",
            f"What one broker may send, and may receive, for this rebalance: {least} to {most} bytes/s "
            f"({bytes_in_words(least)}/s to {bytes_in_words(most)}/s).{why}",
            number=_planned_throttle(folder, rates),
            least=least,
            most=most,
        )
        return (throttle,)

    def details(self, folder: RunFolder, choice: str, answer: Answer) -> Mapping[str, Any]:
        found = read_rates(folder).get(choice)
        rate = answer.throttle_bytes_per_second or _planned_throttle(folder, [found] if found else [])
        if choice != REJECT and found is not None and rate < found.least_bytes_per_second:
            raise ApprovalError(
                f"The answer does not count: at a throttle of {rate} bytes/s the copies of {choice} never end. They "
                f"need {found.least_bytes_per_second} bytes/s: {found.reason}. "
                "Start a new Dag run and approve a higher rate."
            )
        proposals = json_files.read_json(folder, json_files.PROPOSALS)
        return {"snapshot_digest": proposals["snapshot_digest"], "throttle_bytes_per_second": rate}

    def begun(self, inputs: StepInputs, folder: RunFolder) -> Mapping[str, Any] | None:
        """The decision again, if batches were started and the cluster's lock says that this run executes it."""
        if not is_there(folder / json_files.BATCHES):
            return None
        held, why = None, ""
        try:
            decision = json_files.read_json(folder, json_files.DECISION)
            connection = inputs.deployment.read_connection(
                json_files.read_json(folder, json_files.SNAPSHOT)["connection_id"]
            )
            held = held_digest(inputs, connection)
        except RebalanceError as unreadable:
            why = f" {unreadable}"
        if held is None or held != decision.get("digest"):
            raise ApprovalError(
                f"Nobody can be asked again: batches of this plan were already started.{why} Start a new Dag run."
            )
        log.warning("Nobody is asked again: batches of the approved plan %s were already started", held[:8])
        return decision

    def end(self, folder: RunFolder) -> None:
        write_last_report(folder)


def _planned_throttle(folder: RunFolder, rates: Sequence[CandidateRates]) -> Any:
    """The automatic rate of the first of these candidates that has one, else the rate of the settings."""
    auto = next((rate.auto_bytes_per_second for rate in rates if rate.auto_bytes_per_second is not None), None)
    return auto or json_files.read_json(folder, json_files.SNAPSHOT)["settings"]["throttle_bytes_per_second"]


def offered_digests(proposals: Mapping[str, Any], stopped: Collection[str]) -> dict[str, str]:
    """{candidate: digest} of the candidates that a person may choose, the recommended one first."""
    offered = {
        c["name"]: c["digest"] for c in proposals["candidates"] if c["status"] in OFFERED and c["name"] not in stopped
    }
    first = proposals.get("recommended")
    return dict(sorted(offered.items(), key=lambda item: item[0] != first))


def stopped_candidates(folder: RunFolder, proposals: Mapping[str, Any]) -> dict[str, list[str]]:
    """{candidate: why a copy of it could not follow}: nobody may approve these, whatever their status.

    Raises ArtifactError unless segments.json is there and of these proposals: a candidate without an audit is not
    offered.
    """
    audit = json_files.read_json(folder, json_files.SEGMENTS)
    if audit.get("source_digest") != digest_of(proposals):
        raise ArtifactError(
            f"{folder / json_files.SEGMENTS} is not of these proposals. Clear render_report with what follows it."
        )
    return {
        name: [stop["words"] for stop in found["stops"]]
        for name, found in audit["candidates"].items()
        if found["stops"]
    }


def _read_only(connection_id: str, missing: Sequence[Mapping[str, str]]) -> str | None:
    if not missing:
        return None
    rights = " ".join(str(Finding(**one)) + "." for one in missing)
    return (
        f"Read-only: the connection {connection_id!r} may not write what a rebalance needs, so nobody is asked. "
        f"{rights} Nothing was written. The report shows the plan. Then start a new Dag run."
    )


def _refusal(stopped: Mapping[str, Sequence[str]], failed: Mapping[str, str]) -> str:
    if not stopped:
        errors = " ".join(f"{name}: {note.removesuffix('.')}." for name, note in failed.items())
        return (
            f"Planning of {', '.join(failed)} failed, and no other candidate moves anything. So it is unknown whether "
            f"there is something to move. {errors} Report the error with this "
            "run's folder, or start a new Dag run with other settings."
        )
    reasons = list(dict.fromkeys(reason for found in stopped.values() for reason in found))
    more = f" And {len(reasons) - 3} more, see the run's report." if len(reasons) > 3 else ""
    return (
        f"No candidate can be approved ({', '.join(stopped)}): a new replica could not follow. {' '.join(reasons[:3])}"
        f"{more} Correct the settings and start a new Dag run."
    )
