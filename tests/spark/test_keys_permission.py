"""The permission that the keys job needs, on a cluster with TLS and a login: without it the task says so."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation
from confluent_kafka.admin import ResourceType as AclResource

from kafka_rebalance.documents.json_files import write_json
from kafka_rebalance.documents.key_sample import REQUEST, REQUEST_FILE, SAMPLE_FILE, OffsetRange, SampleRequest
from kafka_rebalance.local_cluster.jars.class_path import spark_source_jars
from kafka_rebalance.spark import keys_job
from kafka_rebalance.spark.job_driver import NONCE
from kafka_rebalance.spark.keys_job import KAFKA_CONFIG
from support.kafka.permissions import permission
from support.kafka.secured_cluster import PASSWORD, USER, secured_cluster

RECORDS = 20


@pytest.mark.long
def test_keys_are_read_with_read_on_the_topic_and_not_without(
    tmp_path: Path, start_submit: Callable[..., subprocess.Popen[str]]
) -> None:
    write_json(tmp_path, NONCE, {"nonce": "c0ffee"})
    REQUEST_FILE.write(tmp_path, SampleRequest("orders", 1, (OffsetRange(0, 0, RECORDS),), 0, (1, 2)))
    arguments = ("--sample", str(tmp_path / REQUEST), "--out", str(tmp_path), "--expect-nonce", "c0ffee")
    with secured_cluster("3.9.2", tmp_path, brokers=1) as secured:
        secured.local.create_topic("orders", {0: (1,)})
        producer = Producer({"bootstrap.servers": secured.local.bootstrap_servers, "log_level": 0})
        for number in range(RECORDS):
            producer.produce("orders", b"value", b"key-%d" % number, 0)
        assert producer.flush(60) == 0
        settings = {**secured.kafka_config(), "bootstrap.servers": secured.servers("SASL_SSL")}

        def sampled() -> tuple[int, str]:
            process = start_submit(
                keys_job.__file__,
                *arguments,
                options={"--jars": ",".join(map(str, spark_source_jars()))},
                environment={KAFKA_CONFIG: json.dumps(settings)},
            )
            said = "".join(process.communicate(timeout=240))
            return process.returncode, said

        secured.permit(permission(AclResource.TOPIC, "*", AclOperation.DESCRIBE, USER))
        code, said = sampled()
        assert code == 2
        assert "orders: Spark's Kafka client could not read the keys" in said
        assert "TopicAuthorizationException" in said
        secured.permit(permission(AclResource.TOPIC, "orders", AclOperation.READ, USER))
        code, said = sampled()
        assert code == 0, said
        assert SAMPLE_FILE.read(tmp_path).rows == RECORDS
        assert PASSWORD not in said
