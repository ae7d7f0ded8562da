"""moto's S3 server as a local process, with one user who must sign every request."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_rebalance.local_cluster.machine.processes import Guard
from support.waiting import wait

BUCKET, REGION, USER = "rebalancer", "eu-central-1", "kafka-rebalance"
# As docs/install.md has it.
PERMISSIONS = {"s3:ListBucket": "", "s3:GetObject": "/*", "s3:PutObject": "/*", "s3:DeleteObject": "/*"}
_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": action, "Resource": f"arn:aws:s3:::{BUCKET}{objects}"}
        for action, objects in PERMISSIONS.items()
    ],
}
_UNSIGNED = 4  # requests that make bucket and user; every later one needs that user's signature


@dataclass(frozen=True, slots=True)
class S3Server:
    endpoint: str
    key: str
    secret: str

    def connection(self) -> dict[str, object]:
        """The Airflow connection."""
        extra = {"endpoint_url": self.endpoint, "region_name": REGION, "config_kwargs": PATH_STYLE}
        return {"conn_type": "aws", "login": self.key, "password": self.secret, "extra": extra}

    def options(self) -> dict[str, object]:
        """The same for fsspec."""
        return {
            "key": self.key,
            "secret": self.secret,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": REGION},
            "config_kwargs": PATH_STYLE,
        }


PATH_STYLE = {"s3": {"addressing_style": "path"}}


@contextlib.contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A running server with an empty bucket. It chooses a free port, which its log names."""
    output, guard = folder / "s3.log", Guard([])
    with output.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", "0"],
            env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(_UNSIGNED)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=guard.group,
        )
    try:
        wait("the S3 server names its address", lambda: "Running on http://" in output.read_text())
        (endpoint,) = re.findall(r"Running on (http://\S+)", output.read_text())
        place = {"LocationConstraint": REGION}
        _client("s3", endpoint).create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)
        users = _client("iam", endpoint)
        users.create_user(UserName=USER)
        users.put_user_policy(UserName=USER, PolicyName="runs", PolicyDocument=json.dumps(_POLICY))
        made = users.create_access_key(UserName=USER)["AccessKey"]
        yield S3Server(endpoint, made["AccessKeyId"], made["SecretAccessKey"])
    finally:
        guard.close()
        process.wait()


def _client(service: str, endpoint: str) -> Any:
    import boto3  # takes a second: only for tests that have a server
    from botocore.config import Config

    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="nobody",
        aws_secret_access_key="none",
        config=Config(proxies={}, retries={"total_max_attempts": 1}),
    )
