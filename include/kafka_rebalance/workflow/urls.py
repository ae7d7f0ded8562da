"""The addresses of our pages and of Airflow's own pages, below the path of Airflow's base URL."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from airflow.sdk import conf

MOUNT = "/kafka-rebalance"  # the plugin's url_prefix
PICTURE = "brokers.svg"


def base_path() -> str:
    """The path of Airflow's base URL, without a slash at its end. Behind a prefix, absolute links need it."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


def static_url() -> str:
    return f"{base_path()}{MOUNT}/static"


def overview_url() -> str:
    """The page "Kafka balance"."""
    return f"{base_path()}{MOUNT}/clusters"


def run_page_url(dag_id: str, run_id: str) -> str:
    """Our page of the run, which its tab shows."""
    return f"{base_path()}{MOUNT}/run/{quote(dag_id, safe='')}/{quote(run_id, safe='')}"


def with_host(url: str) -> str:
    """One of these addresses for readers outside Airflow: with the host, if the base URL has one."""
    base = urlsplit(conf.get("api", "base_url", fallback=""))
    return f"{base.scheme}://{base.netloc}{url}" if base.netloc else url


def run_url(dag_id: str, run_id: str) -> str:
    return f"{dag_url(dag_id)}/runs/{quote(run_id, safe='')}"


def dag_url(dag_id: str) -> str:
    """The page on which people trigger the Dag."""
    return f"{base_path()}/dags/{quote(dag_id, safe='')}"


def task_url(dag_id: str, run_id: str, task_id: str) -> str:
    """The log of the run's task, on the page on which people clear it."""
    return f"{run_url(dag_id, run_id)}/tasks/{quote(task_id, safe='')}"


def answer_url(dag_id: str, run_id: str, task_id: str) -> str:
    """The page on which people answer a request of the run."""
    return f"{task_url(dag_id, run_id, task_id)}/required_actions"
