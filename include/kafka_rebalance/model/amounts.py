"""Bytes, shares and bounds as people read them, in plans and on pages alike."""

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


def bound_in_words(copied: float, bound: float | None, tolerance: float | None = None) -> str:
    """What a plan copies beside what no plan stays below: `copies 412 GiB; no plan within 5 % copies less than ...`.

    `tolerance` None: the bound is of plans that end as even as this one. Empty where nothing is copied or known.
    """
    if not copied or not bound:
        return ""
    as_even = "as even" if tolerance is None else f"within {share_in_words(tolerance)}"
    above = copied / bound - 1
    over = f"{share_in_words(above)} above the bound" if above > 0 else "exactly the bound"
    return f"copies {bytes_in_words(copied)}; no plan {as_even} copies less than {bytes_in_words(bound)} ({over})"


def _figures(amount: float) -> str:
    """Three significant figures, without an exponent."""
    return f"{amount:.0f}" if amount >= 99.95 else f"{amount:.1f}" if amount >= 9.995 else f"{amount:.2f}"
