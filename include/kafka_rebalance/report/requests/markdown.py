"""Text from the cluster and from people, in a request's markdown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_HARMLESS = re.compile(r"(?!\d+[.)](?: |$))[^\W_](?:[^\W_]|(?<=[^\W_])_(?=[^\W_])|[ .,:;()%'’–→+/=…-])*")


def asked_by(requested_by: str | None, reason: str | None) -> str:
    """Markdown: who asks, and why."""
    who = code(requested_by, 80) if requested_by else "a schedule, or someone unknown"
    return f"**Asked by** {who} · **Reason** {code(reason, 400) if reason else 'none given'}"


def format_ids(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


def sentence(text: str, most: int) -> str:
    """A sentence of ours, as text where nothing in it can be markup, else as `code`: it may hold a name of the cluster.

    An underscore within a word is none, nor is a dot, unless it makes a link of it (`www.`) or a list (`1. `).
    """
    plain = one_line(text, most).strip()
    is_text = plain and _HARMLESS.fullmatch(plain) and "www." not in plain.lower() and "//" not in plain
    return plain if is_text else code(text, most)


def code(text: str, most: int) -> str:
    """The text as a code span in which nothing can end the span, the table's cell, or start a template.

    Kafka allows none of these characters in a name, so what is replaced was hostile or a person's own words.
    """
    plain = one_line(text, most).replace("`", "'").replace("|", "¦").strip()
    return f"`{plain}`" if plain else "`(empty)`"


def one_line(text: str, most: int) -> str:
    """One line without control, format (bidirectional) or surrogate characters, and nothing for Jinja to start at."""
    visible = "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)
    line = " ".join(visible.split())
    for opening in ("{{", "{%", "{#"):
        while opening in line:
            line = line.replace(opening, f"{opening[0]} {opening[1]}")
    return line if len(line) <= most else line[: most - 1] + "…"
