"""Bytes and shares as people read them, in plans and on pages alike."""

from __future__ import annotations

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def bytes_in_words(size: float) -> str:
    """Binary units, three figures: `0 B`, `1.50 KiB`, `12.4 GiB`."""
    amount, step = float(size), 0
    while abs(amount) >= 1023.5 and step < len(_BINARY) - 1:
        amount, step = amount / 1024, step + 1
    return f"{amount:.0f} B" if step == 0 else f"{_figures(amount)} {_BINARY[step]}"


def share_in_words(share: float) -> str:
    """A share of one as percent: `7 %`; small but not nothing is `< 1 %`."""
    if 0 < share < 0.01:
        return "< 1 %"
    return f"{share * 100:.0f} %"


def _figures(amount: float) -> str:
    """Three significant figures, without an exponent."""
    return f"{amount:.0f}" if amount >= 99.95 else f"{amount:.1f}" if amount >= 9.995 else f"{amount:.2f}"
