"""The errors of steps in the words of this command, which has no Airflow and no Dag run."""

from __future__ import annotations

import re

_AGAIN = "Run the command again"
_OPTIONS = "the command's options, or the file of --connection"
# What steps advise, and what that is here.
_HERE = (
    (
        r"set rackless_brokers: (\w+) in the policy",
        r"give --set rackless_brokers=\1, or set it in the file of --policy",
    ),
    (r"Correct (?:it|them|one of them) under Admin, Connections", f"Correct {_OPTIONS}"),
    (r"\bthe Airflow connection", "the connection"),
    (r"Let Airflow's processes read and write what is below \[kafka_rebalance\] runs_url", "Let this user write there"),
    (r"the storage below \[kafka_rebalance\] runs_url", "that storage"),
    (r"Start a new Dag run|Clear (?:the|this) task(?: that wrote it)?", _AGAIN),
    (r"start a new Dag run|clear (?:the|this) task(?: that wrote it)?", _AGAIN.lower()),
    (r"Let the task that wrote it write it again", _AGAIN),
)
_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z[])")
_ELSEWHERE = re.compile(r"\b(Airflow|Airflow's|Dag|XCom|triggerer)\b|Admin, |\brun's page\b|\bruns_url\b")


def told_here(text: str) -> str:
    """The text with what to do here, without sentences about what is not here."""
    for pattern, words in _HERE:
        text = re.sub(pattern, words, text)
    return " ".join(sentence for sentence in _SENTENCE.split(text) if not _ELSEWHERE.search(sentence))
