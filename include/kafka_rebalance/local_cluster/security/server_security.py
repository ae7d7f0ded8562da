"""What makes the servers of a cluster ask who a client is, and let it do only what rules permit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.security.certificates import STORE_PASSWORD, Authority

# Each listener has a loopback address of its own, and a port after the broker's. The plain listener at 127.0.0.1 is for
# the brokers and for tests: who comes there is the superuser ANONYMOUS.
_LISTENERS = {"SASL_SSL": "127.0.0.2", "SSL": "127.0.0.3", "STRANGER": "127.0.0.4"}
_CERTIFIED = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
BROKERS_USER = "kafka"  # of ZooKeeper
_BROKERS_PASSWORD = "s3cret-of-the-brokers"
_ATTEMPTS = 4
_LOGIN = "org.apache.kafka.common.security"
_DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule required"


class ServerSecurity:
    """Certificates and settings for one cluster of Kafka 2.8 or later. `folder` takes the files.

    `users` are {name: password}. They exist in ZooKeeper, and on the brokers for PLAIN and SCRAM-SHA-512. They may do
    nothing until `rules.permit`. Listeners: `SASL_SSL`; `SSL`, where a client's certificate names the user; `STRANGER`,
    which is `SASL_SSL` at an address that the brokers' certificate does not name.
    """

    def __init__(self, folder: Path, users: Mapping[str, str]) -> None:
        self.users = dict(users)
        self.authority = Authority(folder, "authority")
        self._servers = self.authority.issue("servers", _CERTIFIED)
        self._jaas = folder / "jaas.conf"
        everybody = " ".join(f'user_{name}="{word}"' for name, word in {**self.users, **_BROKERS}.items())
        self._jaas.write_text(
            f"Server {{ {_DIGEST} {everybody}; }};\n"
            f'Client {{ {_DIGEST} username="{BROKERS_USER}" password="{_BROKERS_PASSWORD}"; }};\n',
            encoding="utf-8",
        )

    @property
    def jvm_options(self) -> tuple[str, ...]:
        """ZooKeeper takes its own from system properties. A JVM with brokers alone ignores them."""
        return (
            f"-Djava.security.auth.login.config={self._jaas}",
            "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "-Dzookeeper.sessionRequireClientSASLAuth=true",
            "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"-Dzookeeper.ssl.keyStore.location={self._servers.store}",
            f"-Dzookeeper.ssl.keyStore.password={STORE_PASSWORD}",
            f"-Dzookeeper.ssl.trustStore.location={self.authority.certificate}",
            "-Dzookeeper.ssl.clientAuth=none",
        )

    @property
    def kazoo_options(self) -> dict[str, Any]:
        """Of the brokers' own user."""
        login = {"mechanism": "DIGEST-MD5", "username": BROKERS_USER, "password": _BROKERS_PASSWORD}
        return {"sasl_options": login, "use_ssl": True, "ca": str(self.authority.certificate)}

    def broker_settings(self, *, kraft: bool) -> dict[str, str]:
        """Overrides for `LocalCluster(broker_config=…)`."""
        more = [f"{name}://{address}:{{port+{nth}}}" for nth, (name, address) in enumerate(_LISTENERS.items(), start=1)]
        passwords = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        logins = {
            f"listener.name.{name}.{mechanism}.sasl.jaas.config": f"{_LOGIN}.{module} required{users};"
            for name in ("sasl_ssl", "stranger")
            for mechanism, module, users in (
                ("plain", "plain.PlainLoginModule", f" {passwords}"),
                ("scram-sha-512", "scram.ScramLoginModule", ""),
            )
        }
        return {
            "listeners": ",".join(["{was}", *more]),
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,STRANGER:SASL_SSL"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            **logins,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self._servers.store),
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
            "super.users": "User:ANONYMOUS",
            "authorizer.class.name": (
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
                if kraft
                else "kafka.security.authorizer.AclAuthorizer"
            ),
            **({} if kraft else self._zookeeper_client()),
        }

    def servers(self, bootstrap_servers: str, listener: str) -> str:
        """The addresses of that listener, from those of the plain one."""
        nth = list(_LISTENERS).index(listener) + 1
        ports = [int(server.rpartition(":")[2]) for server in bootstrap_servers.split(",")]
        return ",".join(f"{_LISTENERS[listener]}:{port + nth}" for port in ports)

    def make_users(self, bootstrap_servers: str) -> None:
        """The users of SCRAM, which brokers keep in the cluster's metadata."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import (
            AdminClient,
            ScramCredentialInfo,
            ScramMechanism,
            UserScramCredentialUpsertion,
        )

        admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = [UserScramCredentialUpsertion(name, how, word.encode()) for name, word in self.users.items()]
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                for answer in admin.alter_user_scram_credentials(wanted).values():
                    answer.result(30)
                return
            except KafkaException as error:
                # Below 0 are the client's own: it drops a connection when it hears of another controller, and in KRaft
                # mode each broker names another one.
                if error.args[0].code() >= 0 or attempt == _ATTEMPTS:
                    raise LocalClusterError(f"The users of SCRAM were not made: {error}.") from error

    def _zookeeper_client(self) -> dict[str, str]:
        return {
            "zookeeper.set.acl": "true",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.truststore.location": str(self.authority.certificate),
            "zookeeper.ssl.truststore.type": "PEM",
        }


_BROKERS = {BROKERS_USER: _BROKERS_PASSWORD}
