"""What pages claim of features, jobs, gauges, packages and versions is compared with the code."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from kafka_rebalance.cancel.cancel_file import ACTIONS
from kafka_rebalance.documents.janitor_report import JanitorReport
from kafka_rebalance.local_cluster.jars.locked_jars import ROOTS
from kafka_rebalance.local_cluster.scenarios import SCENARIOS
from kafka_rebalance.model.candidate import Metric
from kafka_rebalance.model.connection import EXTRAS
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import CANDIDATES, GIVE_BACK, JOBS, Settings
from kafka_rebalance.run.clusters import CLUSTERS
from kafka_rebalance.throttle.janitor import read_gauges

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ROOT / "include" / "kafka_rebalance"


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """The cells of each row of a table, without headings and rules."""
    found = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|\n"))]
        for line in text.splitlines()
        if line.startswith("|") and not re.match(r"\|[-| ]+\|$", line)
    ]
    return [cells for cells in found if cells[0] not in ("there", "package", "command", "folder")]


def fields(kind: type) -> set[str]:
    return {one.name for one in dataclasses.fields(kind)}  # type: ignore[arg-type]


# docs/coming_from.md


def test_every_name_of_ours_that_another_tools_user_is_sent_to_exists() -> None:
    named = {name for cells in rows(page("coming_from.md")) for name in re.findall(r"`([a-z_]+)`", cells[1])}
    listed = set(re.findall(r"`([a-z_]+)`", page("reference.md"))) | {"as_kafka", "verify", "balance"}
    extras = {name for names in EXTRAS.values() for name in names}
    known = {CLUSTERS, *ACTIONS, *listed} | fields(Settings) | fields(Policy) | extras | set(JOBS) | {GIVE_BACK}
    known |= set(CANDIDATES)
    assert len(named) > 25
    assert named <= known | {"kafka_log_dirs", "kafka_topics", "kafka_rebalance_cancel", "kafka_balance_check"}


@pytest.mark.parametrize(
    "name",
    ["brokers_in", "brokers_out", "drain", "broker_pools", "metrics_secret_config"],
)
def test_a_feature_that_other_tools_have_too_is_named_where_their_users_look(name: str) -> None:
    extras = {extra for names in EXTRAS.values() for extra in names}
    assert name in fields(Settings) | fields(Policy) | extras, "the feature is gone, and so is its claim"
    assert f"`{name}`" in page("coming_from.md")


def test_what_this_package_is_said_not_to_do_is_nothing_that_it_does() -> None:
    denied = "\n".join(re.findall(r"^### What [^\n]* does not\n(.*?)(?=^##|\Z)", page("coming_from.md"), re.M | re.S))
    done = {
        "sets of brokers|pools": "broker_pools" in fields(Settings),
        "which brokers (may )?receive|--broker-list": "brokers_in" in fields(Settings),
        "Prometheus|metrics server": "metrics_secret_config" in EXTRAS["kafka_zookeeper"],
        "log dirs": (PRODUCT / "log_dirs").is_dir(),
        "create|delete|alter.* topics?": (PRODUCT / "topics").is_dir(),
        "windows": "windows" in fields(Policy),
        "roll.?back": True,
    }
    assert len(denied.splitlines()) > 5
    assert [words for words, is_done in done.items() if is_done and re.search(words, denied)] == []


# docs/reliability.md and docs/benchmarks.md: short pages before those of evidence


@pytest.mark.parametrize("name", ["reliability.md", "benchmarks.md"])
def test_each_figure_of_a_short_page_is_on_the_page_of_evidence_that_its_row_names(name: str) -> None:
    table = page(name).split("evidence |\n", 1)[1].split("\n\n", 1)[0]
    evidence = ""
    for tried, result, source in rows(table):
        if link := re.search(r"\((evidence/\w+\.md)", source):  # else it is "the same" as in the row before
            evidence = page(link[1])
        figures = re.findall(r"\d[\d,.]*\d|\d", f"{tried} {result}")
        assert not [figure for figure in figures if figure not in evidence], (name, tried)


# docs/contributing.md


def test_the_versions_and_scenarios_of_the_local_cluster_are_those_that_it_has() -> None:
    (versions,) = re.findall(r"^Versions are (.*?)\. Scenarios are (.*?)\. 4", page("contributing.md"), re.M | re.S)
    assert re.findall(r"[0-9.]+[0-9]", versions[0]) == list(ROOTS)
    assert re.findall(r"`(\w+)`", versions[1]) == list(SCENARIOS)


# docs/jobs.md

EXAMPLES = re.findall(r"^```json\n(.*?)^```", page("jobs.md"), flags=re.MULTILINE | re.DOTALL)


def test_every_setting_that_people_give_is_shown() -> None:
    given = {field.name for field in dataclasses.fields(Settings)} - {"policy_digest"}
    assert {name for name in given if not re.search(rf"\b{name}\b", page("jobs.md"))} == set()


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_one_that_a_run_takes(example: str) -> None:
    given = json.loads(example)
    assert Settings.from_mapping(given).job == given["job"]


def test_the_tasks_that_people_come_with_have_an_example() -> None:
    titles = re.findall(r"^### (.+)\n(?:(?!^#).*\n)*?```json", page("jobs.md"), flags=re.MULTILINE)
    assert len(titles) == len(EXAMPLES) >= 7
    wanted = {"Add a broker", "Drain a broker", "Replace a broker", "Demote a broker", "Two zones"}
    assert wanted | {"Raise the replication factor"} <= set(titles)


# scripts/house_questions.json


def test_each_answer_is_a_module_that_defines_what_is_asked_for() -> None:
    questions = json.loads((ROOT / "scripts/house_questions.json").read_text(encoding="utf-8"))
    for asked in questions:
        module = ROOT / "include/kafka_rebalance" / f"{asked['module'].replace('.', '/')}.py"
        text = module.read_text(encoding="utf-8")
        assert asked["names"], asked["question"]
        assert all(re.search(rf"\b(?:def|class) {name}\b", text) for name in asked["names"]), asked["question"]
    assert len(questions) == 40


# docs/monitoring.md and its dashboard

DOCS = ROOT / "docs"
NOW = datetime(2026, 5, 3, tzinfo=UTC)
EVERYTHING = {
    **{f"skew_{metric}": 0.1 for metric in Metric}, "imbalance": 0.1, "limit": 0.2,
    "fullest_disk_share": 0.5, "first_full_days": 9.0, "brokers_away": [], "observed_at": NOW,
}  # fmt: skip


def sent() -> set[str]:
    return {*read_gauges._of_check(EVERYTHING, NOW), *read_gauges._of_report(JanitorReport(), NOW)}


def test_the_page_has_every_gauge_once() -> None:
    table = (DOCS / "monitoring.md").read_text().partition("<!-- gauges -->")[2].partition("<!-- /gauges -->")[0]
    named = [
        name
        for row in table.splitlines()
        for name in re.findall(r"`([\w.]+)`", row.split("|")[1] if "|" in row else "")
    ]
    assert sorted(named) == sorted(sent())


def test_alerts_and_dashboard_ask_for_gauges_that_are_sent() -> None:
    rules = (DOCS / "monitoring.md").read_text().partition("## Alerts")[2].partition("## A dashboard")[0]
    asked = set(re.findall(r"\b((?:skew|disk|check|run|throttle|lock|janitor)\.[a-z_]+)", rules))
    dashboard = json.loads((DOCS / "monitoring/dashboard.json").read_text())
    asked |= {
        re.findall(r'gauge="([^"]+)"', target["expr"])[0]
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }
    assert asked <= sent()
    assert len(asked) > 10


def test_the_mapping_takes_a_name_apart() -> None:
    (mapping,) = yaml.safe_load((DOCS / "monitoring/statsd_mapping.yml").read_text())["mappings"]
    found = re.fullmatch(mapping["match"], "airflow.kafka_rebalance.orders-prod.skew.disk")
    assert found is not None
    assert found.groups() == ("orders-prod", "skew.disk")
