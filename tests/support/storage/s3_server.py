"""moto's S3 server as a local process, with one user who must sign every request."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.waiting import wait

BUCKET, REGION = "rebalancer", "eu-central-1"
_MAY_ALL = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
_UNSIGNED = 3  # requests that make the user; every later one needs that user's signature


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
    output = folder / "s3.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", "0"],
            env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(_UNSIGNED)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait("the S3 server names its address", lambda: "Running on http://" in output.read_text())
        (endpoint,) = re.findall(r"Running on (http://\S+)", output.read_text())
        users = _client("iam", endpoint, "none", "none")
        users.create_user(UserName="rebalancer")
        users.put_user_policy(UserName="rebalancer", PolicyName="all", PolicyDocument=_MAY_ALL)
        made = users.create_access_key(UserName="rebalancer")["AccessKey"]
        server = S3Server(endpoint, made["AccessKeyId"], made["SecretAccessKey"])
        _client("s3", endpoint, server.key, server.secret).create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _client(service: str, endpoint: str, key: str, secret: str) -> Any:
    import boto3  # takes a second: only for tests that have a server
    from botocore.config import Config

    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(proxies={}, retries={"total_max_attempts": 1}),
    )
