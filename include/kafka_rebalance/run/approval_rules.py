"""Who may answer an approval request, which answers count, and the decision that is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kafka_rebalance.documents.json_files import DECISION, JsonFile, Time, omitted
from kafka_rebalance.errors import ApprovalError, StaleProposalError
from kafka_rebalance.model.policy import Approver, Policy
from kafka_rebalance.moves.windows import CLOCKS_MAY_DIFFER

# Who may answer an approval request, and which answers count.


SHORT_DIGEST = 8
# Airflow 3.3 shows up to four options as buttons, Reject among them. It shows more options as a list with a button
# *Respond* below it (HITLResponseForm.tsx: options.length <= 4).
BUTTONS = 3
LONGEST_TEXT = 10_000


@dataclass(frozen=True, slots=True)
class Requester:
    """Who started the run. Airflow records a *name* for people, and nothing for runs that no person started."""

    name: str | None
    automatic: bool  # started by a schedule, an asset, or a run of another Dag that no person started
    plan_by: str | None = None  # who asked for the plan, if the run's files name somebody

    @property
    def unknown(self) -> bool:
        return self.name is None and not self.automatic

    @property
    def names(self) -> frozenset[str]:
        """Of the people who asked. If the policy forbids it, none of them may approve."""
        return frozenset(name for name in (self.name, self.plan_by) if name is not None)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as Airflow stores it. Auth managers fill the person's id and name in different ways."""

    option: str
    user_id: str | None
    user_name: str | None
    throttle_bytes_per_second: int | None
    consent: str | None = None  # the sentence that a cancel asks for
    note: str | None = None
    at: datetime | None = None  # None: now
    filled_in: Mapping[str, object] | None = None  # the form as Airflow has it: any JSON; see `read_form`


@dataclass(frozen=True, slots=True)
class Question:
    """A field of the form: an optional text, or a whole number within limits. `name` is its key in Airflow's API."""

    name: str
    title: str
    description: str
    number: int | None = None  # the first value; None: the field is a text
    least: int | None = None
    most: int | None = None


def label(name: str, digest: str) -> str:
    """The text of a candidate's button: `balanced · 9f3a1c2e`. The digest shows whether a request is an old one."""
    return f"{name} · {digest[:SHORT_DIGEST]}"


def on_buttons(names: Iterable[str], ranking: Sequence[str]) -> tuple[str, ...]:
    """The candidates for which the request has a button: the first of the plan's `ranking`."""
    place = {name: number for number, name in enumerate(ranking)}
    return tuple(sorted(names, key=lambda name: place.get(name, len(place)))[:BUTTONS])


def labels(digests: Mapping[str, str]) -> tuple[str, ...]:
    """The buttons of a request, Reject last; `digests` is {candidate: digest}."""
    return (*(label(name, digest) for name, digest in digests.items()), REJECT)


def check_approvers(policy: Policy, requester: Requester) -> tuple[Approver, ...]:
    """The policy's approvers without those who asked, compared by name. Raises ApprovalError if nobody is left.

    If the name of the person who started the run is not known, it may be anybody, so nobody may approve.
    """
    people = policy.approvers
    if not policy.requester_may_approve:
        people = () if requester.unknown else tuple(p for p in people if p.name not in requester.names)
    if people:
        return people
    why = ["Airflow does not know who started the run"] if requester.unknown else []
    if requester.name is not None:
        why.append(f"{requester.name} started the run")
    if requester.plan_by not in (None, requester.name) and not requester.unknown:
        why.append(f"{requester.plan_by} asked for its plan")
    raise ApprovalError(
        f"Nobody may approve: {' and '.join(why)}, and the policy's approvers are {_people(policy.approvers)}. "
        "Name another approver in the policy, or let somebody else start the run."
    )


def read_form(answer: Answer, questions: Sequence[Question]) -> Answer:
    """The answer with what its form says. Raises ApprovalError for a form that does not fit: Airflow's API takes any.

    An empty form stands for the values that the request shows, as in Airflow. A rejection needs no form.
    """
    given = answer.filled_in
    if given is None:
        return answer
    if not isinstance(given, Mapping):
        raise ApprovalError("The answer does not count: its form is no JSON object.")
    if answer.option == REJECT or not given:
        return replace(answer, note=text_of(given.get("note")))
    wanted = {question.name: question for question in questions}
    problems = [f"{name} is missing" for name in wanted.keys() - given.keys()]
    problems += [f"{str(name)[:40]!r} is no field of the request" for name in given.keys() - wanted.keys()]
    problems += [
        f"{name} {problem}"
        for name, question in wanted.items()
        if name in given and (problem := _field_problem(given[name], question)) is not None
    ]
    if problems:
        raise ApprovalError(
            f"The answer does not count: {'; '.join(sorted(problems))}. Clear the task approve, which asks again."
        )
    rate = given.get("throttle_bytes_per_second")
    return replace(
        answer,
        throttle_bytes_per_second=None if rate is None else int(rate),  # type: ignore[call-overload]
        consent=text_of(given.get("i_consent_to")),
        note=text_of(given.get("note")),
    )


def _field_problem(value: object, question: Question) -> str | None:
    if question.number is None:
        if value is None or text_of(value) is not None:
            return None
        return f"must be null or a text of at most {LONGEST_TEXT} characters"
    return None if _is_whole(value) else "must be a whole number"


def _is_whole(value: object) -> bool:
    """As a JSON schema has it: 3000000.0 is a whole number too. All that we ask for has 63 bits."""
    whole = type(value) is int or (type(value) is float and value.is_integer())
    return whole and 0 <= value < 2**63  # type: ignore[operator]


def text_of(value: object) -> str | None:
    """The value if it is a text that every file can hold: half a surrogate pair has no bytes in UTF-8."""
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        return None
    return None if any("\ud800" <= character <= "\udfff" for character in value) else value


def check_answer(answer: Answer, digests: Mapping[str, str], policy: Policy, requester: Requester) -> str:
    """The candidate that was chosen, or Reject. Raises ApprovalError for an answer that must not count.

    Every approver of the policy may reject: that changes nothing.
    """
    if answer.option not in labels(digests):
        raise ApprovalError(
            f"The answer {answer.option!r} is not for this plan. Its options are {', '.join(labels(digests))}. A "
            "cleared task shows the request of the earlier plan. Start a new run."
        )
    allowed = policy.approvers if answer.option == REJECT else check_approvers(policy, requester)
    if answer.user_id is None or answer.user_id not in {person.id for person in allowed}:
        raise ApprovalError(
            f"The answer of {answer.user_id or 'an unknown user'} does not count: only {_people(allowed)} may give it. "
            "Start a new Dag run and let one of them answer."
        )
    if answer.option == REJECT:
        return REJECT
    # The stored name is the auth manager's own, so it is compared even where ids differ from names.
    if not policy.requester_may_approve and answer.user_name in requester.names:
        did = "started this run" if answer.user_name == requester.name else "asked for this plan"
        raise ApprovalError(
            f"{answer.user_name} {did} and may not approve it. "
            f"Start a new Dag run and let one of {_people(allowed)} approve it."
        )
    if answer.throttle_bytes_per_second is not None:
        problem = policy.throttle_problem(answer.throttle_bytes_per_second)
        if problem is not None:
            raise ApprovalError(f"The answer does not count: {problem}.")
    return next(name for name, digest in digests.items() if label(name, digest) == answer.option)


def _people(people: Sequence[Approver]) -> str:
    return ", ".join(person.id for person in people)


def check_approval_fresh(
    approved_at: datetime, expires_after_seconds: float, now: datetime, *, not_before: datetime | None = None
) -> None:
    """Raises ApprovalError if the approval is older than the policy allows before the first write, or has a time in the
    future: if clocks differ, nobody can tell its age. `not_before`: the earliest time at which the run could begin. The
    age counts from the later of the two.
    """
    if approved_at - now > CLOCKS_MAY_DIFFER:
        raise ApprovalError(
            f"The approval is of {approved_at:%Y-%m-%d %H:%M %Z}, and this worker's clock says "
            f"{now:%Y-%m-%d %H:%M %Z}. So the run cannot tell whether the approval has expired. Correct the clocks of "
            "Airflow's machines, then clear this task. If the approval's time was wrong, start a new Dag run."
        )
    ends = approval_ends(approved_at, expires_after_seconds, not_before=not_before)
    if now <= ends:
        return
    since = ends - timedelta(seconds=expires_after_seconds)
    counted = (
        "" if since == approved_at else f" Its time counts from {since:%Y-%m-%d %H:%M %Z}, when the run could begin."
    )
    raise ApprovalError(
        f"The approval of {approved_at:%Y-%m-%d %H:%M %Z} has expired: the policy's approval_expires_after_seconds is "
        f"{expires_after_seconds:g}.{counted} Nothing of it was begun, neither before nor now. Start a new Dag run, "
        "and ask for an approval of what it proposes."
    )


def approval_ends(
    approved_at: datetime, expires_after_seconds: float, *, not_before: datetime | None = None
) -> datetime:
    """When `check_approval_fresh` begins to refuse it."""
    return max(approved_at, not_before or approved_at) + timedelta(seconds=expires_after_seconds)


def check_policy_unchanged(approved: str | None, now: str | None) -> None:
    """Raises StaleProposalError unless the policy's digest is still the approved one; None: no policy file."""
    if approved is None or now is None:
        which = "when this was planned" if approved is None else "any more"
        raise StaleProposalError(
            f"The cluster has no policy {which}, so it is read-only. Add its policy file and start a new Dag run."
        )
    if approved != now:
        raise StaleProposalError(
            f"The policy has changed: its digest was {approved[:8]} at the approval and is {now[:8]} now. "
            "Start a new Dag run to plan under the current policy."
        )


# decision.json: a person's answer to a request. Later tasks compare it with the digest that went through XCom.


REJECT = "Reject"  # the choice that approves nothing


@dataclass(frozen=True, slots=True)
class Person:
    """A user, as Airflow's auth manager knows them."""

    id: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """If the request ended without an answer, `choice` is None and nothing else is known; see `Unanswered`.

    `approved_by` is also None if the policy lets people create a topic without an approval.
    """

    choice: str | None = None
    digest: str | None = None  # of what was chosen; None: nothing was chosen
    policy_digest: str | None = None
    approved_by: Person | None = None
    approved_at: Time | None = None
    note: str | None = None
    throttle_bytes_per_second: int | None = omitted()  # for each broker; of a range the highest
    # Of a range the lowest; None: one rate.
    throttle_from_bytes_per_second: int | None = omitted()
    snapshot_digest: str | None = omitted()  # of the snapshot's two tables
    request_digest: str | None = omitted()  # of the document of the run's first task; earlier versions lack it
    shown_files: Mapping[str, str] | None = omitted()  # digests of the files that the answer is about
    expired: bool | None = omitted()
    i_consent_to: str | None = omitted("")  # of a cancel
    source_digest: str | None = omitted()  # of the document that describes the choices

    def __post_init__(self) -> None:
        if self.is_approval and (self.digest is None or self.approved_at is None):
            raise ValueError("Expected a digest and a time with an approval")

    @property
    def is_approval(self) -> bool:
        return self.choice not in (None, REJECT)

    @property
    def chosen(self) -> str:
        """What an approval chose."""
        assert self.choice is not None
        return self.choice

    @property
    def given_at(self) -> datetime:
        """When an approval was given."""
        assert self.approved_at is not None  # see `__post_init__`
        return self.approved_at

    @property
    def rate(self) -> int:
        """The approved throttle of each broker, in bytes per second; of a range the highest."""
        assert self.throttle_bytes_per_second is not None  # each decision about a plan with copies has it
        return self.throttle_bytes_per_second

    @property
    def lowest_rate(self) -> int:
        """The same; of a range the lowest."""
        lowest = self.throttle_from_bytes_per_second
        return self.rate if lowest is None else lowest

    @property
    def by_id(self) -> str | None:
        return None if self.approved_by is None else self.approved_by.id

    @property
    def by(self) -> str | None:
        """The name of the person who decided, because an id may be a number."""
        who = self.approved_by
        return None if who is None else who.name or who.id


DECISION_FILE = JsonFile(DECISION, Decision)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The part of a decision that is written if nobody has answered."""

    choice: None
    expired: bool


UNANSWERED_FILE = JsonFile(DECISION, Unanswered)


@dataclass(frozen=True, slots=True)
class ToldDecision:
    """The XCom `decision`: where decision.json is, and the digest of that file."""

    run_folder: str
    nonce: str
    choice: str | None = None
    digest: str | None = None
    decision_digest: str | None = None
