"""What Airflow itself finds of us: the plugin, its tab, and the connection form."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from airflow import plugins_manager

from kafka_rebalance.model.connection import EXTRAS
from kafka_rebalance.workflow.connection_form import get_provider_info
from kafka_rebalance.workflow.hooks import AdminApiHook, KafkaClusterHook
from support.airflow.airflow_home import REPOSITORY


def found_plugin() -> Any:
    plugins, errors = plugins_manager._get_plugins()
    assert not [error for error in errors if "kafka" in error], errors
    (plugin,) = [plugin for plugin in plugins if plugin.name == "kafka_rebalance"]
    return plugin


def test_airflow_finds_the_plugin_with_its_app_and_its_tab() -> None:
    plugin = found_plugin()
    (app,) = plugin.fastapi_apps
    view, _ = plugin.external_views
    assert app["url_prefix"] == "/kafka-rebalance"
    assert view["destination"] == "dag_run"
    assert view["name"] == "Rebalance"
    assert view["href"] == "/kafka-rebalance/run/{DAG_ID}/{RUN_ID}"


FIND = """
import importlib.metadata, importlib_metadata, json
def hide(metadata):
    installed = metadata.distributions
    metadata.distributions = lambda **asked: (one for one in installed(**asked) if one.name != "kafka-rebalance")
if {is_only_on_the_path}:
    hide(importlib.metadata), hide(importlib_metadata)  # Airflow reads the second one before Python 3.12
from airflow import plugins_manager
plugins, errors = plugins_manager._get_plugins()
sources = [str(one.source) for one in plugins if one.name == "kafka_rebalance"]
print(json.dumps({{"sources": sources, "errors": errors}}))
"""


@pytest.mark.parametrize(
    ("is_only_on_the_path", "source"), [(False, "kafka-rebalance=="), (True, "kafka_rebalance_plugin.py")]
)
def test_the_plugin_is_registered_once_whether_the_package_is_installed_or_only_on_the_path(
    is_only_on_the_path: bool, source: str
) -> None:
    found = in_a_new_process(FIND.format(is_only_on_the_path=is_only_on_the_path))
    assert found["errors"] == {}
    (registered,) = found["sources"]
    assert source in registered


def test_airflow_finds_the_overview_under_browse() -> None:
    _, view = found_plugin().external_views
    assert (view["name"], view["destination"], view["category"]) == ("Kafka balance", "nav", "browse")
    assert view["href"] == "/kafka-rebalance/clusters"


def test_the_plugin_and_the_web_app_agree_on_the_mount() -> None:
    from kafka_rebalance.workflow.web import app as web

    assert found_plugin().fastapi_apps[0]["url_prefix"] == web.MOUNT


def test_the_interface_still_fills_in_what_the_tab_links_to() -> None:
    # The placeholders are the UI's own; they are only in its JavaScript.
    import airflow

    assets = (REPOSITORY.joinpath(airflow.__file__).parent / "ui" / "dist" / "assets").glob("index-*.js")
    scripts = "".join(path.read_text() for path in assets)
    assert "replaceAll(`{DAG_ID}`,encodeURIComponent(" in scripts
    assert "replaceAll(`{RUN_ID}`,encodeURIComponent(" in scripts


def in_a_new_process(code: str, **environment: str) -> dict[str, Any]:
    import os

    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


LOAD = """
import json, sys
from kafka_rebalance.workflow.plugin import KafkaRebalancePlugin
print(json.dumps({"hrefs": [view["href"] for view in KafkaRebalancePlugin.external_views], "heavy": sorted(
    name for name in (
        "kafka_rebalance.workflow.web.app", "airflow.api_fastapi.core_api.security", "matplotlib", "fastapi"
    ) if name in sys.modules)}))
"""


@pytest.fixture(scope="module")
def loaded_behind_a_prefix() -> dict[str, Any]:
    return in_a_new_process(LOAD, AIRFLOW__API__BASE_URL="https://airflow.example.org/team/airflow")


def test_tab_and_overview_link_below_the_prefix_of_the_base_url(loaded_behind_a_prefix: dict[str, Any]) -> None:
    assert loaded_behind_a_prefix["hrefs"] == [
        "/team/airflow/kafka-rebalance/run/{DAG_ID}/{RUN_ID}",
        "/team/airflow/kafka-rebalance/clusters",
    ]


def test_a_task_that_loads_the_plugin_does_not_pay_for_the_web_app(loaded_behind_a_prefix: dict[str, Any]) -> None:
    assert loaded_behind_a_prefix["heavy"] == []


both_hooks = pytest.mark.parametrize(
    ("hook", "host"), [(KafkaClusterHook, "ZooKeeper connect string"), (AdminApiHook, "Bootstrap servers")]
)


@both_hooks
def test_airflow_shows_the_connection_type_with_its_form(hook: type[KafkaClusterHook], host: str) -> None:
    # What the connection form of the UI asks for (GET /ui/connections/hook_meta).
    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

    forms = {one.connection_type: one for one in HookMetaService.hook_meta_data()}
    shown = forms[hook.conn_type]
    assert shown.hook_name == hook.hook_name
    fields = shown.standard_fields
    assert fields.host.title == host
    assert fields.port.hidden
    assert fields.url_schema.hidden
    assert fields.login.hidden == (hook is AdminApiHook)
    assert set(shown.extra_fields) == set(EXTRAS[hook.conn_type])


@both_hooks
def test_the_form_has_exactly_the_fields_that_the_hook_reads(hook: type[KafkaClusterHook], host: str) -> None:
    form = form_of(hook)
    assert set(form["conn-fields"]) == set(EXTRAS[hook.conn_type])
    assert form["hook-class-name"] == f"{hook.__module__}.{hook.__qualname__}"


@both_hooks
def test_the_form_masks_what_can_hold_a_password(hook: type[KafkaClusterHook], host: str) -> None:
    form = form_of(hook)
    masked = {name for name, field in form["conn-fields"].items() if field["schema"].get("format") == "password"}
    assert masked == {"kafka_secret_config", "metrics_secret_config", "zookeeper_secret_config"} & set(
        EXTRAS[hook.conn_type]
    )


def form_of(hook: type[KafkaClusterHook]) -> dict[str, Any]:
    (form,) = [one for one in get_provider_info()["connection-types"] if one["connection-type"] == hook.conn_type]
    return dict(form)


def test_the_provider_info_follows_airflows_schema() -> None:
    from importlib.resources import files

    import jsonschema

    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)
