"""Typed access to the run folder's JSON: a value of the wrong kind is an error that names file and key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

from kafka_rebalance.errors import ArtifactError


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON object and what to call it in errors."""

    where: str
    content: Mapping[str, object]

    @classmethod
    def of(cls, where: str, content: object) -> Document:
        if not isinstance(content, Mapping):
            raise ArtifactError(f"{where} is not a JSON object. Clear the task that wrote it.")
        return cls(where, content)

    def text(self, key: str, default: str | None = None) -> str:
        value = self.content.get(key, default)
        return value if isinstance(value, str) else self._wrong(key, "text")

    def optional_text(self, key: str) -> str | None:
        return None if self.content.get(key) is None else self.text(key)

    def number(self, key: str) -> float:
        value = self.content.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return self._wrong(key, "a number")
        return value

    def optional_number(self, key: str) -> float | None:
        return None if self.content.get(key) is None else self.number(key)

    def count(self, key: str) -> int:
        """An integer, or the length of a list where the file lists the objects themselves."""
        value = self.content.get(key)
        if isinstance(value, list):
            return len(value)
        return value if type(value) is int else self._wrong(key, "an integer")

    def optional_count(self, key: str) -> int | None:
        return None if self.content.get(key) is None else self.count(key)

    def counts(self, key: str, length: int) -> tuple[int, ...]:
        """A list of that many integers."""
        value = self.content.get(key)
        if not isinstance(value, list) or len(value) != length or any(type(item) is not int for item in value):
            return self._wrong(key, f"a list of {length} integers")
        return tuple(value)

    def ids(self, key: str) -> tuple[int, ...]:
        """A list of integers, however many."""
        value = self.content.get(key)
        return self.counts(key, len(value)) if isinstance(value, list) else self._wrong(key, "a list of integers")

    def numbers(self, key: str) -> tuple[float, ...]:
        """A list of numbers, however many."""
        value = self.content.get(key)
        if not isinstance(value, list) or any(type(item) not in (int, float) for item in value):
            return self._wrong(key, "a list of numbers")
        return tuple(value)

    def flag(self, key: str) -> bool:
        value = self.content.get(key)
        return value if type(value) is bool else self._wrong(key, "true or false")

    def time(self, key: str) -> datetime:
        """ISO 8601 with its zone: a time without one cannot be shown honestly."""
        try:
            moment = datetime.fromisoformat(self.text(key))
        except ValueError:
            return self._wrong(key, "a time in ISO 8601")
        return moment if moment.tzinfo is not None else self._wrong(key, "a time with its zone")

    def optional_time(self, key: str) -> datetime | None:
        return None if self.content.get(key) is None else self.time(key)

    def part(self, key: str) -> Document:
        return Document.of(f"{self.where}: {key}", self.content.get(key))

    def optional_part(self, key: str) -> Document | None:
        return None if self.content.get(key) is None else self.part(key)

    def parts(self, key: str) -> tuple[Document, ...]:
        value = self.content.get(key)
        if not isinstance(value, list):
            return self._wrong(key, "a list")
        return tuple(Document.of(f"{self.where}: {key}[{position}]", item) for position, item in enumerate(value))

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.content.get(key, [])
        if not isinstance(value, Sequence) or isinstance(value, str):
            return self._wrong(key, "a list")
        return tuple(str(item) for item in value)

    def _wrong(self, key: str, wanted: str) -> NoReturn:
        raise ArtifactError(
            f"{self.where}: {key!r} is not {wanted}. Nothing was written to the cluster. Clear the task that wrote it."
        )
