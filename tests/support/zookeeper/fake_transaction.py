"""Transactions of the ZooKeeper in memory."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

from kazoo.client import TransactionRequest
from kazoo.exceptions import KazooException, RolledBackError, RuntimeInconsistency
from kazoo.protocol.serialization import Create, Delete, SetData


class FakeTransaction(TransactionRequest):
    """kazoo's own, whose operations go to a `FakeZooKeeper`: all under one zxid, or none.

    Where one fails each result is an error, of which one is the reason, as ZooKeeper answers.
    """

    def __init__(self, fake: Any) -> None:
        super().__init__(SimpleNamespace(chroot=fake.chroot, default_acl=(), logger=logging.getLogger("kazoo")))
        self.fake = fake

    def commit_async(self) -> SimpleNamespace:
        self.committed = True
        paths = [operation.path.removeprefix(self.fake.chroot) for operation in self.operations]
        path = next((path for call, path, *_ in self.fake._failures if call == "commit" and path in paths), paths[0])
        return SimpleNamespace(get=lambda timeout: self.fake._call("commit", path, lambda: self._commit_or_fail(paths)))

    def _commit_or_fail(self, paths: list[str]) -> list[Any]:
        """A failure that waits for one of its writes is that of the whole."""
        for failure in self.fake._failures:
            call, path, took_effect, error = failure
            if call in ("create", "set", "delete") and path in paths:
                self.fake._failures.remove(failure)
                if took_effect:
                    self._commit(paths)
                raise error
        return self._commit(paths)

    def _commit(self, paths: list[str]) -> list[Any]:
        fake = self.fake
        before, zxid = fake.copied(), fake.zxid
        results: list[Any] = []
        for path, operation in zip(paths, self.operations, strict=True):
            fake.zxid = zxid
            try:
                results.append(self._operate(path, operation))
            except KazooException as failed:
                fake.znodes, fake.zxid = before, zxid
                left = len(paths) - len(results) - 1
                return [*(RolledBackError() for _ in results), failed, *(RuntimeInconsistency(),) * left]
        for path, operation in zip(paths, self.operations, strict=True):
            done = {Create: "create", SetData: "set", Delete: "delete"}.get(type(operation))
            if done is not None:
                fake._act(done, path, lambda: None)
        return results

    def _operate(self, path: str, operation: Any) -> Any:
        if isinstance(operation, Create):
            return self.fake._create(path, operation.data, operation.acl, sequence=bool(operation.flags & 2))
        if isinstance(operation, SetData):
            return self.fake._set(path, operation.data, operation.version)
        znode = self.fake._versioned(path, operation.version)
        if isinstance(operation, Delete):
            del self.fake.znodes[path]
        return znode
