"""The markdown of approval requests: tables, and text that comes from the cluster or from a person."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_HARMLESS = re.compile(r"(?!\d+[.)](?: |$))[^\W_](?:[^\W_]|(?<=[^\W_])_(?=[^\W_])|[ .,:;()%'’–→+/=…-])*")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A head that begins with # is that of a column of numbers."""
    sides = ("--:" if head.startswith("#") else ":--" for head in heads)
    lines = [[head.removeprefix("#") for head in heads], *rows]
    cells = [f"| {' | '.join(map(str, line))} |" for line in lines]
    return "\n".join([cells[0], f"|{'|'.join(sides)}|", *cells[1:]])


def on_cluster(connection_id: str, cluster_id: str) -> str:
    return f"on {code(connection_id, 120)} · {code(cluster_id, 60)}"


def asked_by(requested_by: str | None, reason: str | None) -> str:
    who = code(requested_by, 80) if requested_by else "a schedule, or someone unknown"
    return f"**Asked by** {who} · **Reason** {code(reason, 400) if reason else 'none given'}"


def format_ids(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


def sentence(text: str, most: int) -> str:
    """A sentence of ours that may hold a name from the cluster: as `code` if anything in it can be markup.

    An underscore within a word is no markup. A dot is markup only if it makes a link (`www.`) or a list (`1. `).
    """
    plain = one_line(text, most).strip()
    is_text = plain and _HARMLESS.fullmatch(plain) and "www." not in plain.lower() and "//" not in plain
    return plain if is_text else code(text, most)


def code(text: str, most: int) -> str:
    """The text as a code span. Nothing in it can end the span or the table's cell, or start a template.

    Kafka allows none of the replaced characters in a name. So such text is hostile, or a person's own words.
    """
    plain = one_line(text, most).replace("`", "'").replace("|", "¦").strip()
    return f"`{plain}`" if plain else "`(empty)`"


def one_line(text: str, most: int) -> str:
    """One line without control, format (bidirectional) or surrogate characters, and without the start of a template."""
    visible = "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)
    line = " ".join(visible.split())
    for opening in ("{{", "{%", "{#"):
        while opening in line:
            line = line.replace(opening, f"{opening[0]} {opening[1]}")
    return line if len(line) <= most else line[: most - 1] + "…"
