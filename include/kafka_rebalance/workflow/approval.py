"""A person picks what was offered under its digest, or rejects. On Airflow's human-in-the-loop base."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.standard.exceptions import HITLTimeoutError
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Param, SkipMixin
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.storage import is_there
from kafka_rebalance.errors import ApprovalError, ArtifactError, RebalanceError
from kafka_rebalance.execution.approval_rules import (
    OFFERED,
    REJECT,
    Answer,
    Requester,
    check_answer,
    check_approvers,
    check_policy_unchanged,
    labels,
    on_buttons,
)
from kafka_rebalance.model.amounts_in_words import bytes_in_words
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.steps.failures import telling_cluster_writes
from kafka_rebalance.workflow.notices import WAITS, Notice
from kafka_rebalance.workflow.retries import started_run
from kafka_rebalance.workflow.run.folder import RunFolder, check_newest_attempt, open_own_folder
from kafka_rebalance.workflow.run.policies import read_policy
from kafka_rebalance.workflow.run.who_asked import requester_of

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True, slots=True)
class Offer:
    """What a run's folder offers for approval."""

    connection_id: str
    policy_digest: str | None  # of the policy it was made under; None: there was no policy file
    digests: Mapping[str, str]  # {choice: digest}, in the order of the buttons
    source_digest: str  # of the document that describes the choices
    asked: Mapping[str, Any]  # the document of the run's first task: who asked for what it describes
    nothing: str | None = None  # why there is nothing to approve, in words
    refused: str | None = None  # why nothing of what there is may be approved: the task fails with it


class DigestApprovalOperator(HITLOperator, SkipMixin):
    """Shows what the run's folder offers and waits; each button carries the first 8 characters of its digest.

    What is asked comes from the run's folder and the policy, at run time and again when the answer comes, in another
    process: Airflow keeps an old request when a task is cleared, and only the digests show that it is an old one.
    """

    inherits_from_skipmixin = True
    template_fields = ("run_folder", "nonce")

    def __init__(self, *, run_folder: str, nonce: str, **kwargs: Any) -> None:
        super().__init__(subject="Approval", options=[REJECT], notifiers=Notice(WAITS), **kwargs)
        self.run_folder = run_folder
        self.nonce = nonce

    @abstractmethod
    def offer(self, folder: RunFolder) -> Offer:
        """What may be chosen."""

    @abstractmethod
    def form(self, folder: RunFolder, policy: Policy) -> ParamsDict:
        """What the approver may fill in; its defaults."""

    @abstractmethod
    def texts(self, folder: RunFolder, dag_run: Any) -> tuple[str, str]:
        """Subject and body of the request."""

    def check_choice(self, folder: RunFolder, choice: str, answer: Answer) -> None:
        """Raises ApprovalError where this choice does not go with the rest of the answer."""

    def details(self, folder: RunFolder, answer: Answer) -> dict[str, Any]:
        """What the decision holds beside choice, digest and approver."""
        return {}

    def end(self, folder: RunFolder) -> None:
        """What else is to be written after a decision.json that approves nothing: no later task runs."""

    def execute(self, context: Context) -> Any:
        folder = self._open(context)
        offer = self.offer(folder)
        policy = self._policy(offer)
        if policy is None:
            self._skip_rest(
                context,
                f"Read-only: there is no policy file for the connection {offer.connection_id!r}, so nothing can "
                "be approved and nothing was written. The report shows the plan.",
            )
        if offer.nothing is not None:
            self._skip_rest(context, offer.nothing)
        if offer.refused is not None:
            raise AirflowFailException(offer.refused)
        self._ask(context, folder, offer, policy)

    def _ask(self, context: Context, folder: RunFolder, offer: Offer, policy: Policy) -> None:
        try:
            people = check_approvers(policy, _requester(context, offer))
        except ApprovalError as refused:
            raise AirflowFailException(str(refused)) from refused
        self.options = list(labels(offer.digests))
        self.assigned_users = [{"id": person.id, "name": person.name} for person in people]
        self.response_timeout = timedelta(seconds=policy.approval_expires_after_seconds)
        self.params = self.form(folder, policy)
        self.subject, self.body = self.texts(folder, context["dag_run"])
        super().execute(context)

    @telling_cluster_writes()
    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        folder = self._open(context)
        offer = self.offer(folder)
        policy = self._policy(offer)
        if policy is None:
            raise AirflowFailException("The policy file is gone since the request. Nothing was written to the cluster.")
        self.options = list(labels(offer.digests))
        self.params = self.form(folder, policy)
        if "error" in event:
            self._note(context, offer, expired=event.get("error_type") == "timeout")
            self._fail_expired(folder, event, policy)
        user, form = event.get("responded_by_user") or {}, event.get("params_input") or {}
        rate = form.get("throttle_bytes_per_second")
        answer = Answer(event["chosen_options"][0], user.get("id"), user.get("name"), rate)
        try:
            choice = check_answer(answer, offer.digests, policy, _requester(context, offer))
            self.check_choice(folder, choice, answer)
        except ApprovalError as refused:
            self._note(context, offer, by=answer.user_id, note=form.get("note"), refused=str(refused))
            raise AirflowFailException(str(refused)) from refused
        decision = {
            "choice": choice,
            "digest": offer.digests.get(choice),
            "policy_digest": policy.digest,
            "approved_by": {"id": user["id"], "name": user.get("name")},
            "approved_at": _iso(event.get("responded_at")),
            "note": form.get("note") or "",
            **self.details(folder, answer),
        }
        self._decide(context, folder, offer, decision)
        self._note(
            context,
            offer,
            choice=choice,
            digest=decision["digest"],
            by=user["id"],
            at=datetime.fromisoformat(decision["approved_at"]),
            note=decision["note"],
            throttle_bytes_per_second=decision.get("throttle_bytes_per_second"),
        )
        self.log.info("%s chose %s", user["id"], answer.option)
        if choice == REJECT:
            self.end(folder)
            self._skip_rest(context, f"Rejected by {user['id']}. Nothing was written to the cluster.")
        return super().execute_complete(context, event)

    def _decide(self, context: Context, folder: RunFolder, offer: Offer, decision: Mapping[str, Any]) -> None:
        """decision.json, and what later tasks need of it; pushed before `skip()`, which raises."""
        digest = json_files.write_json(folder, json_files.DECISION, decision, source_digest=offer.source_digest)
        self._push(context, decision, digest)

    def _push(self, context: Context, decision: Mapping[str, Any], decision_digest: str) -> None:
        chosen = {"choice": decision["choice"], "digest": decision["digest"], "decision_digest": decision_digest}
        context["ti"].xcom_push("decision", {**chosen, "run_folder": self.run_folder, "nonce": self.nonce})

    def _note(self, context: Context, offer: Offer, *, expired: bool = False, **answer: Any) -> None:
        """A row of the ledger: every answer, also one that does not count, and every request that ended without one."""
        from kafka_rebalance.workflow.ledger import ledger  # heavy, and this file is read with the Dag

        now, dag_run = datetime.now(UTC), context["dag_run"]
        row = {"dag_id": dag_run.dag_id, "run_id": dag_run.run_id, "expired": expired, **answer}
        # A cleared request is answered again: that is another row. The same answer noted twice is one.
        file = f"{dag_run.dag_id}.{dag_run.run_id}.{answer.get('at') or now}"
        ledger.append("decisions", offer.connection_id, file, now, [row])

    def _open(self, context: Context, *, newest: bool = True) -> RunFolder:
        """The folder of this very run, and of its newest attempt unless that is not asked for."""
        try:
            folder = open_own_folder(self.run_folder, context["dag_run"], self.nonce)
            if newest:
                check_newest_attempt(folder)
        except RebalanceError as unusable:
            raise AirflowFailException(str(unusable)) from unusable
        return folder

    def _policy(self, offer: Offer) -> Policy | None:
        """Today's policy, which must be the one that the offer was made under."""
        try:
            policy = read_policy(offer.connection_id)
            if policy is None and offer.policy_digest is None:
                return None
            check_policy_unchanged(offer.policy_digest, policy.digest if policy else None)
        except RebalanceError as refused:
            raise AirflowFailException(str(refused)) from refused
        return policy

    def _fail_expired(self, folder: RunFolder, event: Mapping[str, Any], policy: Policy) -> NoReturn:
        """An expired or broken request fails the run; the cluster was not touched."""
        json_files.write_json(
            folder, json_files.DECISION, {"choice": None, "expired": event.get("error_type") == "timeout"}
        )
        self.end(folder)
        if event.get("error_type") == "timeout":
            raise HITLTimeoutError(
                f"Nobody answered within {policy.approval_expires_after_seconds} s, so the request expired. "
                "Nothing was written to the cluster. Start a new Dag run to plan from the current cluster."
            )
        raise AirflowFailException(f"The request failed: {event['error']}. Nothing was written to the cluster.")

    def _skip_rest(self, context: Context, why: str) -> NoReturn:
        """Ends the run as a success with the rest skipped, whatever the trigger rules behind say."""
        self.log.warning(why)
        behind = context["task"].get_flat_relatives(upstream=False)
        self.skip(ti=context["ti"], tasks=[task for task in behind if not task.is_teardown])
        raise AssertionError("skip() raises")  # pragma: no cover


class CandidateApprovalOperator(DigestApprovalOperator):
    """Offers the best few candidates of a rebalance; the approver may change the throttle within the policy's range."""

    def offer(self, folder: RunFolder) -> Offer:
        proposals = json_files.read_json(folder, json_files.PROPOSALS)
        snapshot = json_files.read_json(folder, json_files.SNAPSHOT)
        stopped = stopped_candidates(folder, proposals)
        digests = offered_digests(proposals, stopped)
        moving = any(_has_moves(proposals, name) for name in digests)
        return Offer(
            connection_id=snapshot["connection_id"],
            policy_digest=snapshot["policy_digest"],
            digests={name: digests[name] for name in on_buttons(digests, proposals.get("ranking", ()))},
            source_digest=digest_of(proposals),
            asked=snapshot,
            nothing=None
            if moving or stopped
            else "Nothing to approve: no candidate moves anything. Nothing was written.",
            refused=None if moving or not stopped else _refusal(stopped),
        )

    def execute(self, context: Context) -> Any:
        folder = self._open(context, newest=False)
        if is_there(folder / json_files.BATCHES):
            self._go_on(context, folder)
            return
        super().execute(context)

    def _go_on(self, context: Context, folder: RunFolder) -> None:
        """Gives the decision once more, if the cluster's lock says that this run executes it."""
        from kafka_rebalance.steps.deployment import read_connection  # heavy, and this file is read with the Dag
        from kafka_rebalance.workflow.run.running import held_digest

        held, why = None, ""
        try:
            decision = json_files.read_json(folder, json_files.DECISION)
            connection = read_connection(json_files.read_json(folder, json_files.SNAPSHOT)["connection_id"])
            held = held_digest(connection, context["dag_run"])
        except RebalanceError as unreadable:
            why = f" {unreadable}"
        if held is None or held != decision.get("digest"):
            raise AirflowFailException(
                f"The approval cannot be asked again: batches of this plan were already started.{why} Start a new Dag "
                "run."
            )
        self._push(context, decision, digest_of(decision))
        self.log.warning("Nothing is asked again: batches of the approved plan %s were already started", held[:8])

    def form(self, folder: RunFolder, policy: Policy) -> ParamsDict:
        least, most = policy.min_throttle_bytes_per_second, policy.max_throttle_bytes_per_second
        rates = [_rates(folder).get(name, {}) for name in self.offer(folder).digests]
        viable = min((found.get("least_bytes_per_second", 1) for found in rates), default=1)
        why = next((f" Automatic: {found['why']}." for found in rates if "why" in found), "")
        least = min(most, max(least, viable))
        throttle = Param(
            _planned_throttle(folder, rates),
            type="integer",
            minimum=least,
            maximum=most,
            title="Throttle (bytes/s per broker)",
            description=f"What one broker may send, and may receive, for this rebalance: {least} to {most} bytes/s "
            f"({bytes_in_words(least)}/s to {bytes_in_words(most)}/s).{why}",
        )
        return ParamsDict({"throttle_bytes_per_second": throttle, "note": note_param()})

    def check_choice(self, folder: RunFolder, choice: str, answer: Answer) -> None:
        if choice == REJECT:
            return
        found = _rates(folder).get(choice, {})
        rate = answer.throttle_bytes_per_second or _planned_throttle(folder, [found])
        least = found.get("least_bytes_per_second", 1)
        if rate < least:
            raise ApprovalError(
                f"The answer does not count: a throttle of {rate} bytes/s is below the {least} bytes/s at which the "
                f"copies of {choice} can end: {found['reason']}. Nothing was written to the cluster. Start a new Dag "
                "run and approve a higher rate."
            )

    def texts(self, folder: RunFolder, dag_run: Any) -> tuple[str, str]:
        from kafka_rebalance.workflow.pages import report_files, urls  # heavy, and this file is read with the Dag

        run = dag_run.dag_id, dag_run.run_id
        page, picture = f"{urls.run_url(*run)}/plugin/rebalance", urls.picture_url(*run)
        return report_files.approval_texts(folder, urls.with_host(page), urls.with_host(picture))

    def end(self, folder: RunFolder) -> None:
        from kafka_rebalance.workflow.pages import report_files  # heavy, and this file is read with the Dag

        report_files.write_last_report(folder)

    def details(self, folder: RunFolder, answer: Answer) -> dict[str, Any]:
        return {
            "snapshot_digest": json_files.read_json(folder, json_files.PROPOSALS)["snapshot_digest"],
            "throttle_bytes_per_second": answer.throttle_bytes_per_second
            or _planned_throttle(folder, [_rates(folder).get(answer.option.partition(" ")[0], {})]),
        }


def _rates(folder: RunFolder) -> Mapping[str, Mapping[str, Any]]:
    from kafka_rebalance.workflow.throttle.rates import read_rates  # heavy, and this file is read with the Dag

    return read_rates(folder)


def _planned_throttle(folder: RunFolder, rates: Sequence[Mapping[str, Any]]) -> Any:
    """The automatic rate of the first of these candidates, if one was asked for, else that of the settings."""
    auto = next((found["auto_bytes_per_second"] for found in rates if "auto_bytes_per_second" in found), None)
    return auto or json_files.read_json(folder, json_files.SNAPSHOT)["settings"]["throttle_bytes_per_second"]


def note_param() -> Param:
    """The approver's note. Empty text disables Airflow's buttons, so it may be null."""
    return Param(None, type=["null", "string"], title="Note", description="Why, for those who read it later.")


def offered_digests(proposals: Mapping[str, Any], stopped: Collection[str]) -> dict[str, str]:
    """{candidate: digest} of those that a person may choose, the recommended one first."""
    offered = {
        c["name"]: c["digest"] for c in proposals["candidates"] if c["status"] in OFFERED and c["name"] not in stopped
    }
    first = proposals.get("recommended")
    return dict(sorted(offered.items(), key=lambda item: item[0] != first))


def stopped_candidates(folder: RunFolder, proposals: Mapping[str, Any]) -> dict[str, list[str]]:
    """{candidate: why a copy of it could not follow}: those that must not be approved, whatever their status.

    Out of segments.json, which must be of these proposals. Raises ArtifactError where it is not there: what was not
    looked at does not pass.
    """
    audit = json_files.read_json(folder, json_files.SEGMENTS)
    if audit.get("source_digest") != digest_of(proposals):
        raise ArtifactError(
            f"{folder / json_files.SEGMENTS} is not of these proposals. Nothing was written to the cluster. Clear "
            "render_report with what follows it."
        )
    return {
        name: [stop["words"] for stop in found["stops"]]
        for name, found in audit["candidates"].items()
        if found["stops"]
    }


def _refusal(stopped: Mapping[str, Sequence[str]]) -> str:
    reasons = list(dict.fromkeys(reason for found in stopped.values() for reason in found))
    more = f" And {len(reasons) - 3} more, see the run's report." if len(reasons) > 3 else ""
    return (
        f"No candidate can be approved ({', '.join(stopped)}): a new replica could not follow. {' '.join(reasons[:3])}"
        f"{more} Nothing was written to the cluster. Correct the settings and start a new Dag run."
    )


def _has_moves(proposals: Mapping[str, Any], name: str) -> bool:
    candidate = next(c for c in proposals["candidates"] if c["name"] == name)
    return bool(candidate["moved_replicas"] or candidate["leader_changes"] or candidate["batches"])


def _requester(context: Context, offer: Offer) -> Requester:
    return requester_of(started_run(context["dag_run"]), offer.asked)


def _iso(moment: Any) -> str:
    if isinstance(moment, datetime):
        return moment.astimezone(UTC).isoformat()
    return str(moment) if moment else datetime.now(UTC).isoformat()
