"""Registers web app, tab and overview. Airflow runs this file in each of its processes and tasks."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

# If the package cannot be imported, Airflow shows this under Plugins.
from kafka_rebalance.workflow.urls import MOUNT, base_path, overview_url


@functools.cache
def _web_app() -> Any:
    from kafka_rebalance.workflow.web.app import create_app

    return create_app()


async def serve(scope: Any, receive: Any, send: Any) -> None:
    """The web app. The first request makes it: its imports take seconds, and tasks do not need them."""
    await _web_app()(scope, receive, send)


class KafkaRebalancePlugin(AirflowPlugin):
    name = "kafka_rebalance"
    fastapi_apps: ClassVar[list[Any]] = [{"app": serve, "url_prefix": MOUNT, "name": "Kafka rebalance"}]
    external_views: ClassVar[list[Any]] = [
        {
            "name": "Rebalance",
            # Airflow's UI fills in both ids, percent-encoded. It shows the tab on runs of every Dag, in an iframe.
            "href": f"{base_path()}{MOUNT}/run/{{DAG_ID}}/{{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "rebalance",
        },
        {
            "name": "Kafka balance",
            "href": overview_url(),
            "destination": "nav",
            "category": "browse",
            "url_route": "kafka-balance",
        },
    ]
