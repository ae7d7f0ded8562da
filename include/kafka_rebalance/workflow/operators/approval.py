"""Lets a person approve one of the offers, or reject. Based on Airflow's human-in-the-loop operator."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Param, ParamsDict, SkipMixin  # type: ignore[attr-defined]  # its stub lacks ParamsDict

from kafka_rebalance.run import approval_request
from kafka_rebalance.run.approval_request import EndsHere, Form, RunLinks
from kafka_rebalance.run.approval_rules import REJECT, Answer, Question
from kafka_rebalance.workflow import urls
from kafka_rebalance.workflow.notices import WAITS, Notice
from kafka_rebalance.workflow.run_step import by_path, run_step

if TYPE_CHECKING:
    from airflow.sdk import Context

T = TypeVar("T")

# Airflow 3.3 fails a task that somebody answers within seconds of the request. See
# docs/decisions/workflow/a_lost_answer_is_asked_for_again.md.
ASKED_AGAIN, PAUSE = 5, timedelta(seconds=2)


class ApprovalOperator(HITLOperator, SkipMixin):
    """Shows the offers of the run's folder and waits for an answer.

    `approval` is the dotted path of a subclass of `Approval`. It is text because the class imports heavy modules, and
    the Dag processor reads this file. A try that fails without a word from a person asks again. An answer that does not
    count, and a request that expires, fail for good.
    """

    inherits_from_skipmixin = True
    template_fields = ("run_folder", "nonce")

    def __init__(self, *, approval: str, run_folder: str, nonce: str, **kwargs: Any) -> None:
        # Over a Dag's `default_args`, which arrive among the other arguments.
        kwargs |= {"retries": ASKED_AGAIN, "retry_delay": PAUSE}
        super().__init__(subject="Approval", options=[REJECT], notifiers=Notice(WAITS), **kwargs)
        self.approval = approval
        self.run_folder = run_folder
        self.nonce = nonce

    def execute(self, context: Context) -> Any:
        run = context["dag_run"].dag_id, context["dag_run"].run_id
        page, picture = f"{urls.run_url(*run)}/plugin/rebalance", f"{urls.run_page_url(*run)}/{urls.PICTURE}"
        request = self._call(approval_request.ask, context, RunLinks(urls.with_host(page), urls.with_host(picture)))
        if request is None:
            return
        if isinstance(request, EndsHere):
            self._skip_rest(context, request.why)
        self._show(request.form)
        self.subject, self.body = request.subject, request.body
        self.assigned_users = [{"id": person.id, "name": person.name} for person in request.people]
        self.response_timeout = timedelta(seconds=request.expires_after_seconds)
        super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        if "error" in event:
            expired = event.get("error_type") == "timeout"
            self._call(approval_request.end_unanswered, context, event["error"], expired)
        user, options = event.get("responded_by_user") or {}, event.get("chosen_options") or []
        answer = Answer(
            options[0] if len(options) == 1 else ", ".join(map(str, options)),
            user.get("id"),
            user.get("name"),
            None,
            at=event.get("responded_at"),
            filled_in=event.get("params_input") or {},
        )
        shown = context["ti"].xcom_pull(task_ids=self.task_id, key=approval_request.SHOWN)
        form = self._call(approval_request.take_answer, context, answer, shown)
        if isinstance(form, EndsHere):
            self._skip_rest(context, form.why)
        self._show(form)
        return super().execute_complete(context, event)

    def _call(self, step: Callable[..., T], context: Context, *arguments: Any) -> T:
        given = by_path(self.approval)(), self.run_folder, self.nonce, *arguments
        return run_step(step, context["dag_run"], *given, ti=context.get("ti"))

    def _show(self, form: Form) -> None:
        self.options = list(form.options)
        self.params = ParamsDict({question.name: _param(question) for question in form.questions})

    def _skip_rest(self, context: Context, why: str) -> NoReturn:
        """Ends the run as a success and skips all later tasks but teardowns, whatever their trigger rules say."""
        self.log.warning(why)
        behind = context["task"].get_flat_relatives(upstream=False)
        self.skip(ti=context["ti"], tasks=[task for task in behind if not task.is_teardown])
        raise AssertionError("skip() raises")  # pragma: no cover


def _param(question: Question) -> Param:
    """A text may be null, because an empty text would disable Airflow's buttons."""
    if question.number is None:
        return Param(None, type=["null", "string"], title=question.title, description=question.description)
    return Param(
        question.number,
        type="integer",
        minimum=question.least,
        maximum=question.most,
        title=question.title,
        description=question.description,
    )
