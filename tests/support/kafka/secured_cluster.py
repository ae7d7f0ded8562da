"""A cluster that asks who a client is, and Airflow connections to it: right ones, and wrong ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AclBinding, AdminClient

from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.security.server_security import ServerSecurity
from support.kafka.permissions import EVERY_RULE, permit

USER, PASSWORD = "rebalancer", "hunter2-of-the-rebalancer"
CERTIFICATE = "certificate"  # beside the mechanisms PLAIN and SCRAM-SHA-512
LISTENERS = {CERTIFICATE: "SSL"}


class SecuredCluster:
    def __init__(self, local: LocalCluster, security: ServerSecurity) -> None:
        self.local, self.security = local, security
        self.superuser = AdminClient({"bootstrap.servers": local.bootstrap_servers, "log_level": 0})

    def permit(self, *rules: AclBinding) -> None:
        permit(self.superuser, *rules)

    def forbid_all(self) -> None:
        for answer in self.superuser.delete_acls([EVERY_RULE]).values():
            answer.result(30)

    def servers(self, listener: str) -> str:
        return self.security.servers(self.local.bootstrap_servers, listener)

    def kafka_config(self, way: str = "SCRAM-SHA-512") -> dict[str, str]:
        """`kafka_secret_config` of a right connection."""
        trusted = {"ssl.ca.location": str(self.security.authority.certificate)}
        if way == CERTIFICATE:
            issued = self.security.authority.issue(USER, password=PASSWORD)
            return {
                "security.protocol": "SSL",
                **trusted,
                "ssl.certificate.pem": issued.certificate.read_text(),
                "ssl.key.pem": issued.key.read_text(),
                "ssl.key.password": PASSWORD,
            }
        login = {"sasl.mechanism": way, "sasl.username": USER, "sasl.password": self.security.users[USER]}
        return {"security.protocol": "SASL_SSL", **trusted, **login}

    def connection(
        self, way: str = "SCRAM-SHA-512", *, servers: str | None = None, **changed: str | None
    ) -> dict[str, Any]:
        """Fields of the Airflow connection. `changed`: of kafka_secret_config, with underscores; None removes a key."""
        config: dict[str, str | None] = dict(self.kafka_config(way))
        config |= {key.replace("_", "."): value for key, value in changed.items()}
        security = json.dumps({key: value for key, value in config.items() if value is not None})
        reached = servers or self.servers(LISTENERS.get(way, "SASL_SSL"))
        if self.local.kraft:
            return {"conn_type": "kafka_admin_api", "host": reached, "extra": {"kafka_secret_config": security}}
        login = self.security.kazoo_options["sasl_options"]
        return {
            "conn_type": "kafka_zookeeper",
            "host": self.local.zookeeper,
            "login": login["username"],
            "password": login["password"],
            "extra": {
                "bootstrap_servers": reached,
                "kafka_secret_config": security,
                "zookeeper_secret_config": {"use_ssl": True, "ca": str(self.security.authority.certificate)},
            },
        }


@contextmanager
def secured_cluster(version: str, folder: Path, *, kraft: bool = False, brokers: int = 4) -> Iterator[SecuredCluster]:
    security = ServerSecurity(folder, {USER: PASSWORD})
    with LocalCluster(version, brokers=brokers, racks=0, kraft=kraft, security=security) as running:
        yield SecuredCluster(running, security)


def with_extra(connection: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
    return {**connection, "extra": {**connection["extra"], **changed}}
