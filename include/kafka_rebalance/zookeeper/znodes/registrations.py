"""The znodes of the cluster itself: broker registrations, controller, controller epoch, cluster id."""

from __future__ import annotations

import re

from kafka_rebalance.model.cluster_view import BrokerRegistration, Controller, Endpoint
from kafka_rebalance.zookeeper.znodes import paths
from kafka_rebalance.zookeeper.znodes.json_fields import (
    corrupt,
    json_integer,
    parse_list,
    parse_milliseconds,
    parse_object,
    parse_text,
    parse_version,
    shortened,
)

# EndPoint.scala: `LISTENER://host:port`, IPv6 in brackets, an empty host means all interfaces.
_ENDPOINT = re.compile(r"[^:/]+://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,10})", re.ASCII)
_PORT_MAX = 65535


def decode_broker(broker_id: int, data: bytes | None, czxid: int | None = None) -> BrokerRegistration:
    """`/brokers/ids/N`, versions 1 to 5 and later (BrokerIdZNode).

    Only version 1 is read by `host` and `port` at top level: later, they are null and -1 on a secured cluster.
    """
    path = paths.broker_path(broker_id)
    fields = parse_object(path, data)
    version = parse_version(path, fields, required=True)
    rack = fields.get("rack")
    if rack is not None and not isinstance(rack, str):
        raise corrupt(path, f"rack must be a text, not {shortened(rack)}")
    if version > 1:
        listeners = parse_list(path, "endpoints", fields.get("endpoints"))
        endpoints = tuple(_endpoint(path, listener) for listener in listeners)
    else:
        host = fields.get("host")
        if not isinstance(host, str):
            raise corrupt(path, f"host must be a text, not {shortened(host)}")
        endpoints = (Endpoint(host, _port(path, fields.get("port"))),)
    return BrokerRegistration(broker_id, endpoints, rack, czxid)


def _endpoint(path: str, listener: object) -> Endpoint:
    match = _ENDPOINT.fullmatch(listener) if isinstance(listener, str) else None
    if match is None:
        raise corrupt(path, f"an endpoint must read LISTENER://host:port, not {shortened(listener)}")
    return Endpoint(match[1], _port(path, int(match[2])))


def _port(path: str, value: object) -> int:
    port = json_integer(path, "port", value)
    if port > _PORT_MAX:
        raise corrupt(path, f"port must be at most {_PORT_MAX}, not {port}")
    return port


def decode_controller(data: bytes | None, epoch: int) -> Controller:
    """`/controller`, versions 1 and 2 (ControllerZNode), with the number in `/controller_epoch`.

    Broker -1 means that there is no controller.
    """
    path = paths.CONTROLLER
    fields = parse_object(path, data)
    parse_version(path, fields)
    kraft_epoch = fields.get("kraftControllerEpoch")
    return Controller(
        broker=json_integer(path, "brokerid", fields.get("brokerid"), least=-1),
        epoch=epoch,
        since_ms=parse_milliseconds(path, "timestamp", fields.get("timestamp")),
        kraft_epoch=json_integer(path, "kraftControllerEpoch", -1 if kraft_epoch is None else kraft_epoch, least=-1),
    )


def decode_controller_epoch(data: bytes | None) -> int:
    """`/controller_epoch`: a decimal number as text, not JSON."""
    if not data or not re.fullmatch(rb"[0-9]{1,10}", data):
        raise corrupt(paths.CONTROLLER_EPOCH, f"it must be a decimal number, not {shortened(data)}")
    return json_integer(paths.CONTROLLER_EPOCH, "the epoch", int(data))


def decode_cluster_id(data: bytes | None) -> str:
    """`/cluster/id` (ClusterIdZNode), whose version is a text."""
    return parse_text(paths.CLUSTER_ID, "id", parse_object(paths.CLUSTER_ID, data).get("id"))
