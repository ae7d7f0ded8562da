"""Approvals under Airflow's FAB auth manager, whose user ids are numbers and whose names are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from kafka_rebalance.errors import ApprovalError
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.run.approval_rules import Answer, Requester, check_answer, check_approvers

DIGESTS = {"balanced": "9f3a1c2e" + "0" * 56}
# FAB's models must not mix with those of this process's Airflow, so they are asked in one of their own.
ASK_FAB = """
import json
from airflow.providers.fab.auth_manager.fab_auth_manager import FabAuthManager
from airflow.providers.fab.auth_manager.models import User
found = {}
for number, name in ((3, "olive"), (4, "uma")):
    user = User()
    user.id, user.username = number, name
    allowed = FabAuthManager.is_authorized_hitl_task(None, assigned_users={"4"}, user=user)
    found[name] = {"id": str(user.get_id()), "name": user.get_name(), "may_answer": allowed}
print("FOUND" + json.dumps(found))
"""


@pytest.fixture(scope="module")
def fab() -> dict[str, dict[str, object]]:
    """What Airflow stores of FAB's users: id and name with an answer, the name with a run."""
    asked = subprocess.run(
        [sys.executable, "-c", ASK_FAB], env=dict(os.environ), capture_output=True, text=True, check=True
    )
    line = next(line for line in asked.stdout.splitlines() if line.startswith("FOUND"))
    found: dict[str, dict[str, object]] = json.loads(line.removeprefix("FOUND"))
    return found


def test_a_policy_that_names_fab_ids_keeps_the_requester_out(fab: dict[str, dict[str, object]]) -> None:
    olive, uma = fab["olive"], fab["uma"]
    assert olive["id"] != olive["name"]
    people = [{"id": olive["id"], "name": olive["name"]}, {"id": uma["id"], "name": uma["name"]}]
    policy = Policy.from_mapping({"approvers": people}, "fab.yaml")
    requester = Requester(name=str(olive["name"]), automatic=False)

    assert [person.id for person in check_approvers(policy, requester)] == [uma["id"]]
    assert (olive["may_answer"], uma["may_answer"]) == (False, True)

    def answer(user: dict[str, object]) -> str:
        given = Answer("balanced · 9f3a1c2e", str(user["id"]), str(user["name"]), None)
        return check_answer(given, DIGESTS, policy, requester)

    assert answer(uma) == "balanced"
    with pytest.raises(ApprovalError):
        answer(olive)
