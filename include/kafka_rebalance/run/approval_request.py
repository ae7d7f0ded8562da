"""What a person is asked to approve. The answer becomes decision.json, a row of the ledger and an XCom."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any, ClassVar, NoReturn, Protocol

from kafka_rebalance import clock
from kafka_rebalance.documents.json_files import plain
from kafka_rebalance.errors import ApprovalError, ApprovalExpiredError
from kafka_rebalance.model.policy import Approver, Policy
from kafka_rebalance.run.approval_rules import (
    DECISION_FILE,
    REJECT,
    UNANSWERED_FILE,
    Answer,
    Decision,
    Person,
    Question,
    ToldDecision,
    Unanswered,
    check_answer,
    check_approvers,
    labels,
    read_form,
    text_of,
)
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.passed_over_tasks import check_all_will_run
from kafka_rebalance.run.policies_of_one_cluster import bound_policy
from kafka_rebalance.run.requester import requester_of, with_own_request
from kafka_rebalance.run.run_folder import (
    RunFolder,
    check_newest_attempt,
    check_still_shown,
    digests_of_files,
    open_own_folder,
)

log = logging.getLogger(__name__)

SHOWN = "shown_files"  # the XCom with the digests of the files that a request shows


@dataclass(frozen=True, slots=True)
class Offer:
    """What a run's folder offers for approval."""

    connection_id: str
    policy_digest: str | None  # of the policy at that time; None: there was no policy file
    digests: Mapping[str, str]  # {choice: digest}, in the order of the buttons
    source_digest: str  # of the document that describes the choices
    request_digest: str  # of the document of the run's first task
    asked_by: str | None  # the person whom that document names
    nothing: str | None = None  # why there is nothing to approve
    refused: str | None = None  # why nobody may approve any choice
    read_only: str | None = None  # why no choice could be executed; the run ends as a success, as without a policy
    cluster_id: str = ""  # so that the policies of other connections to it bind the answer too; empty: its own alone
    needs_answer: bool = True  # False: the only choice is taken without a question


class _Requested(Protocol):
    """The document of a run's first task, as far as a request for approval needs it."""

    @property
    def connection_id(self) -> str: ...
    @property
    def policy_digest(self) -> str | None: ...
    @property
    def requested_by(self) -> str | None: ...


def offer_in(written: _Requested, digest: str, digests: Mapping[str, str], **more: Any) -> Offer:
    """What one document offers, which says all that a person approves; `digest` is that of the document."""
    offered = Offer(written.connection_id, written.policy_digest, digests, digest, digest, written.requested_by)
    return replace(offered, **more)


NOTE = Question("note", "Note", "Why, for people who read it later.")


@dataclass(frozen=True, slots=True)
class Form:
    options: tuple[str, ...]  # the buttons; each carries the first 8 characters of its digest
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What is shown, to whom, and for how long."""

    form: Form
    people: tuple[Approver, ...]
    expires_after_seconds: float
    subject: str
    body: str  # markdown


@dataclass(frozen=True, slots=True)
class EndsHere:
    """The run ends as a success, and Airflow skips the later tasks."""

    why: str


@dataclass(frozen=True, slots=True)
class RunLinks:
    page: str
    picture: str


class Approval(ABC):
    """What one Dag asks for. It reads the run's folder each time, because only digests show that a request is old."""

    behind: ClassVar[tuple[str, ...]]  # the tasks that must run after an approval
    shown: ClassVar[tuple[str, ...]]  # the files that the request, and the decision, are made from

    @abstractmethod
    def offer(self, folder: RunFolder) -> Offer:
        """The choices."""

    @abstractmethod
    def texts(self, folder: RunFolder, links: RunLinks) -> tuple[str, str]:
        """Subject and body of the request."""

    def questions(self, folder: RunFolder, offer: Offer, policy: Policy) -> tuple[Question, ...]:
        """The fields besides the note."""
        return ()

    def details(self, folder: RunFolder, choice: str, answer: Answer) -> Mapping[str, Any]:
        """Fields that only this Dag's decisions have. Raises ApprovalError if the answer must not count."""
        return {}

    def asking_approves(self, offer: Offer) -> bool:
        """Whether an approver who asks for this has approved it by that: it only stops what runs."""
        return False

    def given_before(self, inputs: StepInputs, folder: RunFolder, offer: Offer, policy: Policy) -> Answer | None:
        """An answer that a person gave before this request, and that counts for it; None: a person is asked."""
        return None

    def begun(self, inputs: StepInputs, folder: RunFolder) -> tuple[Decision, str] | None:
        """The decision that the run already executes, and its digest: it is passed on again, and nobody is asked."""
        return None

    def end(self, folder: RunFolder) -> None:  # noqa: B027
        """Writes what is left to write after a decision that approves nothing: no later task runs."""


def ask(
    inputs: StepInputs, approval: Approval, run_folder: str, nonce: str, links: RunLinks
) -> Request | EndsHere | None:
    """None: the decision is made, and nobody is asked. Raises ApprovalError if nobody may approve, or no choice."""
    folder = open_own_folder(inputs.deployment, run_folder, inputs.run, nonce)
    begun = approval.begun(inputs, folder)
    if begun is not None:
        _tell(inputs, folder, nonce, *begun)
        return None
    offer, policy = _offer(inputs, approval, folder)
    if policy is None:
        return EndsHere(
            f"Read-only: there is no policy file for the connection {offer.connection_id!r}, so nobody can approve "
            "anything. Nothing was written. The report shows the plan."
        )
    ends = offer.nothing if offer.nothing is not None else offer.read_only
    if ends is not None:
        return EndsHere(ends)
    check_all_will_run(inputs, approval.behind)
    if offer.refused is not None:
        raise ApprovalError(offer.refused)
    if not offer.needs_answer:
        ((choice, digest),) = offer.digests.items()
        taken = Decision(
            choice,
            digest,
            policy.digest,
            approved_at=clock.utc_now(),
            note="",
            request_digest=offer.request_digest,
        )
        _decide(inputs, folder, nonce, offer, taken)
        return None
    return _ask_unless_given(inputs, approval, folder, nonce, offer, policy, links)


def _ask_unless_given(
    inputs: StepInputs,
    approval: Approval,
    folder: RunFolder,
    nonce: str,
    offer: Offer,
    policy: Policy,
    links: RunLinks,
) -> Request | None:
    given = approval.given_before(inputs, folder, offer, policy)
    if given is not None:
        _count(inputs, approval, folder, nonce, offer, policy, given, *offer.digests)  # there is one choice
        return None
    requester = requester_of(inputs.deployment, inputs.run, offer.asked_by)
    own = approval.asking_approves(offer)
    rules = with_own_request(policy, requester, inputs.run) if own else policy
    people, form = check_approvers(rules, requester), _form(inputs, approval, folder, offer, policy)
    inputs.tell(SHOWN, digests_of_files(folder, approval.shown))
    if rules is not policy and form.questions == (NOTE,):
        by = next(person for person in people if person.name == requester.name)
        log.info("%s is an approver and has asked for this, so nobody else is asked", by.id)
        given = Answer(form.options[0], by.id, by.name, None)
        _count(inputs, approval, folder, nonce, offer, policy, given, *offer.digests)
        return None
    return Request(form, people, policy.approval_expires_after_seconds, *approval.texts(folder, links))


def take_answer(
    inputs: StepInputs, approval: Approval, run_folder: str, nonce: str, answer: Answer, shown: object = None
) -> Form | EndsHere:
    """Writes the decision. Notes an answer that must not count, and raises ApprovalError.

    `shown` is what `ask` told under SHOWN; None: an earlier version has asked.
    """
    folder, offer, policy = _again(inputs, approval, run_folder, nonce)
    form = _form(inputs, approval, folder, offer, policy)
    try:
        answer = read_form(answer, form.questions)
        requester = requester_of(inputs.deployment, inputs.run, offer.asked_by)
        own = approval.asking_approves(offer)
        limits = _limits(inputs, offer, policy)
        rules = with_own_request(limits, requester, inputs.run) if own else limits
        choice = check_answer(answer, offer.digests, rules, requester)
        if choice != REJECT:  # a rejection changes nothing, whatever was shown
            check_still_shown(folder, approval.shown, shown)
        _count(inputs, approval, folder, nonce, offer, policy, answer, choice)
    except ApprovalError as refused:
        _note(inputs, offer, by=answer.user_id, note=text_of(answer.note), refused=str(refused))
        raise
    if choice != REJECT:
        return form
    approval.end(folder)
    return EndsHere(f"Rejected by {answer.user_id}. Nothing was written to the cluster.")


def _count(
    inputs: StepInputs,
    approval: Approval,
    folder: RunFolder,
    nonce: str,
    offer: Offer,
    policy: Policy,
    answer: Answer,
    choice: str,
) -> None:
    """Writes the decision that the answer makes. Raises ApprovalError if it must not count."""
    details = approval.details(folder, choice, answer)
    assert answer.user_id is not None  # `check_answer` refuses an answer without a person
    decision = Decision(
        choice=choice,
        digest=offer.digests.get(choice),
        policy_digest=policy.digest,
        approved_by=Person(answer.user_id, answer.user_name),
        approved_at=(answer.at or clock.utc_now()).astimezone(UTC),
        note=answer.note or "",
        request_digest=offer.request_digest,
        shown_files=digests_of_files(folder, approval.shown),
        **details,
    )
    _decide(inputs, folder, nonce, offer, decision)
    kept = {name: getattr(decision, name) for name in ("choice", "digest", "note", "throttle_bytes_per_second")}
    _note(inputs, offer, by=answer.user_id, at=decision.approved_at, **kept)
    log.info("%s chose %s", answer.user_id, answer.option)


def end_unanswered(
    inputs: StepInputs, approval: Approval, run_folder: str, nonce: str, why: str, expired: bool
) -> NoReturn:
    """Fails the run, which has written nothing to the cluster."""
    folder, offer, policy = _again(inputs, approval, run_folder, nonce)
    _note(inputs, offer, expired=expired)
    UNANSWERED_FILE.write(folder, Unanswered(None, expired))
    approval.end(folder)
    if expired:
        raise ApprovalExpiredError(
            f"Nobody answered within {policy.approval_expires_after_seconds} s, so the request expired. "
            "Nothing was written to the cluster. Start a new Dag run to plan from the current cluster."
        )
    raise ApprovalError(f"The request failed: {why}.")


def _again(inputs: StepInputs, approval: Approval, run_folder: str, nonce: str) -> tuple[RunFolder, Offer, Policy]:
    folder = open_own_folder(inputs.deployment, run_folder, inputs.run, nonce)
    offer, policy = _offer(inputs, approval, folder)
    if policy is None:
        raise ApprovalError("Somebody removed the policy file after the request.")
    return folder, offer, policy


def _offer(inputs: StepInputs, approval: Approval, folder: RunFolder) -> tuple[Offer, Policy | None]:
    """The offer, and today's policy, which must still be that of the offer."""
    check_newest_attempt(folder)
    offer = approval.offer(folder)
    if offer.policy_digest is None and inputs.deployment.read_policy(offer.connection_id) is None:
        return offer, None
    return offer, inputs.deployment.check_policy_unchanged(offer.connection_id, offer.policy_digest)


def _form(inputs: StepInputs, approval: Approval, folder: RunFolder, offer: Offer, policy: Policy) -> Form:
    limits = _limits(inputs, offer, policy)
    return Form(labels(offer.digests), (*approval.questions(folder, offer, limits), NOTE))


def _limits(inputs: StepInputs, offer: Offer, policy: Policy) -> Policy:
    """The policy, with the limits of others of the same cluster."""
    if not offer.cluster_id:
        return policy
    return bound_policy(inputs.deployment, policy, offer.connection_id, offer.cluster_id)


def _decide(inputs: StepInputs, folder: RunFolder, nonce: str, offer: Offer, decision: Decision) -> None:
    digest = DECISION_FILE.write(folder, decision, source_digest=offer.source_digest)
    _tell(inputs, folder, nonce, decision, digest)


def _tell(inputs: StepInputs, folder: RunFolder, nonce: str, decision: Decision, digest: str) -> None:
    inputs.tell("decision", plain(ToldDecision(str(folder), nonce, decision.choice, decision.digest, digest)))


def _note(inputs: StepInputs, offer: Offer, *, expired: bool = False, **answer: Any) -> None:
    """A row of the ledger, for every answer, also one that does not count, and for a request without an answer."""
    from kafka_rebalance.run import ledger  # heavy, and Airflow reads this file with the Dag

    now, run = clock.utc_now(), inputs.run
    row = {"dag_id": run.dag_id, "run_id": run.run_id, "expired": expired, **answer}
    # The answer to a cleared request is another row. The same answer noted twice is one row.
    file = f"{run.dag_id}.{run.run_id}.{answer.get('at') or now}"
    ledger.append(inputs.deployment, "decisions", offer.connection_id, file, now, [row])
