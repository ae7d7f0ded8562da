"""A person approves the cancelling of a running rebalance, or a throttle above the approved one, or rejects it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict

from kafka_rebalance.documents import json_files
from kafka_rebalance.execution.approval_rules import REJECT, Answer
from kafka_rebalance.execution.cancel.cancel_fates import CancelPlan, check_consent
from kafka_rebalance.execution.stuck_request import ElectionPlan
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.steps.cancel.actions import CONSENT, ELECT_CONTROLLER, SET_THROTTLE
from kafka_rebalance.workflow.approval import DigestApprovalOperator, Offer, note_param
from kafka_rebalance.workflow.run.folder import RunFolder

if TYPE_CHECKING:
    from airflow.sdk import Context


class CancelApprovalOperator(DigestApprovalOperator):
    """Offers what cancel.json would do: cancel now, or elect another controller.

    Where znodes of the controller are deleted for it, the approver has to repeat a sentence that names them.
    """

    _consent: str | None = None

    def offer(self, folder: RunFolder) -> Offer:
        written = json_files.read_json(folder, json_files.CANCEL)
        return Offer(
            connection_id=written["connection_id"],
            policy_digest=written["policy_digest"],
            digests={written["action"]: _plan(written).digest},
            source_digest=digest_of(written),
            asked=written,
        )

    def form(self, folder: RunFolder, policy: Policy) -> ParamsDict:
        plan = _plan(json_files.read_json(folder, json_files.CANCEL))
        if plan.consent is None:
            return ParamsDict({"note": note_param()})
        consent = Param(
            None,
            type=["null", "string"],
            title="I consent to",
            description=f"To go on, repeat word for word: {plan.consent}",
        )
        return ParamsDict({CONSENT: consent, "note": note_param()})

    def texts(self, folder: RunFolder, dag_run: Any) -> tuple[str, str]:
        from kafka_rebalance.report.requests import (  # heavy, and this file is read with the Dag
            cancel,
            controller_election,
        )

        written = json_files.read_json(folder, json_files.CANCEL)
        words = controller_election if written["action"] == ELECT_CONTROLLER else cancel
        return words.approval_subject(written), words.approval_body(written)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        self._consent = (event.get("params_input") or {}).get(CONSENT)
        return super().execute_complete(context, event)

    def check_choice(self, folder: RunFolder, choice: str, answer: Answer) -> None:
        if choice != REJECT:
            check_consent(_plan(json_files.read_json(folder, json_files.CANCEL)), self._consent)

    def details(self, folder: RunFolder, answer: Answer) -> dict[str, Any]:
        return {CONSENT: self._consent}


class RateApprovalOperator(DigestApprovalOperator):
    """Offers the rate of cancel.json, which is above the one that the run was approved with."""

    def offer(self, folder: RunFolder) -> Offer:
        written = json_files.read_json(folder, json_files.CANCEL)
        return Offer(
            connection_id=written["connection_id"],
            policy_digest=written["policy_digest"],
            digests={SET_THROTTLE: written["digest"]},
            source_digest=digest_of(written),
            asked=written,
        )

    def form(self, folder: RunFolder, policy: Policy) -> ParamsDict:
        return ParamsDict({"note": note_param()})

    def texts(self, folder: RunFolder, dag_run: Any) -> tuple[str, str]:
        from kafka_rebalance.report.requests.cancel import rate_body, rate_subject  # heavy, and read with the Dag

        written = json_files.read_json(folder, json_files.CANCEL)
        return rate_subject(written), rate_body(written)


def _plan(written: Mapping[str, Any]) -> CancelPlan | ElectionPlan:
    if written["action"] == ELECT_CONTROLLER:
        return ElectionPlan.from_mapping(written["plan"])
    return CancelPlan.from_mapping(written["plan"])
