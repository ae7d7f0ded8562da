"""The clusters' page."""

from __future__ import annotations

from kafka_rebalance.pages.cluster_health import Overview
from kafka_rebalance.pages.shell import ANSWER_SECONDS, rendered

REQUESTS = "requests"  # below the clusters' page: a tag that changes when somebody asks for or gives an approval


def render_overview(overview: Overview, *, static_url: str, overview_url: str, requests_tag: str) -> str:
    """The clusters' page. Its script asks below `overview_url` whether `requests_tag` has changed."""
    return rendered(
        "fleet/overview.html",
        static_url,
        overview=overview,
        title="Kafka balance",
        overview_url=overview_url,
        requests_url=f"{overview_url}/{REQUESTS}",
        requests_tag=requests_tag,
        refresh_seconds=ANSWER_SECONDS,
    )
