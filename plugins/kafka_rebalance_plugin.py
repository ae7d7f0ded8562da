"""Registers web app, tab and overview with Airflow, which runs this file in each of its processes and tasks."""

from __future__ import annotations

import functools
from typing import Any, ClassVar
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

import kafka_rebalance.workflow  # noqa: F401  where it cannot be imported, Airflow shows that under Plugins

MOUNT = "/kafka-rebalance"
BASE_PATH = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


@functools.cache
def _web_app() -> Any:
    from kafka_rebalance.workflow.pages.web import create_app

    return create_app()


async def serve(scope: Any, receive: Any, send: Any) -> None:
    """The web app, made at its first request: its imports take seconds, which no task should pay."""
    await _web_app()(scope, receive, send)


class KafkaRebalancePlugin(AirflowPlugin):
    name = "kafka_rebalance"
    fastapi_apps: ClassVar[list[Any]] = [{"app": serve, "url_prefix": MOUNT, "name": "Kafka rebalance"}]
    external_views: ClassVar[list[Any]] = [
        {
            "name": "Rebalance",
            # Airflow's UI puts both in percent-encoded. It shows the tab on runs of every Dag, in an iframe.
            "href": f"{BASE_PATH}{MOUNT}/run/{{DAG_ID}}/{{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "rebalance",
        },
        {
            "name": "Kafka balance",
            "href": f"{BASE_PATH}{MOUNT}/clusters",
            "destination": "nav",
            "category": "browse",
            "url_route": "kafka-balance",
        },
    ]
