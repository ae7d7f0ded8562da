"""`python -m kafka_rebalance.planning --snapshot DIR --out DIR [--settings FILE.json] [--history FILE]`: no Spark."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.planning.command_line import argument_parser, folder_at, read_file, read_settings, say
from kafka_rebalance.planning.planner import run


def main(arguments: Sequence[str] | None = None) -> int:
    """0 once the tables are written, 2 if an input cannot be used. The error goes to stderr."""
    options = argument_parser("python -m kafka_rebalance.planning").parse_args(arguments)
    try:
        settings = read_settings(options.settings)
        history = read_file(options.history) if options.history is not None else None
        run(folder_at(options.snapshot), folder_at(options.out), settings, progress=say, history=history)
    except RebalanceError as wrong:
        say(f"{type(wrong).__name__}: {wrong}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
