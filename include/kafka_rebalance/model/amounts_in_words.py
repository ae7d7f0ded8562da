"""Bytes, times, shares and bounds in words, the same in plans, pages, logs and messages."""

from __future__ import annotations

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def bytes_in_words(size: float) -> str:
    """Binary units, three significant figures: `0 B`, `1.50 KiB`, `12.4 GiB`."""
    amount, step = float(size), 0
    while abs(amount) >= 1023.5 and step < len(_BINARY) - 1:
        amount, step = amount / 1024, step + 1
    decimals = 0 if step == 0 or amount >= 99.95 else 1 if amount >= 9.995 else 2
    return f"{amount:.{decimals}f} {_BINARY[step]}"


def duration_in_words(seconds: float) -> str:
    """The two largest units: `45 s`, `12 min`, `3 h 20 min`, `2 d 4 h`; below a second `under 1 s`."""
    if 0 < seconds < 1:
        return "under 1 s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = round(whole / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(hours + minutes / 60), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def share_in_words(share: float) -> str:
    """A share of one as percent: `7 %`. A share above 0 and below 0.01 is `< 1 %`."""
    return "< 1 %" if 0 < share < 0.01 else f"{share * 100:.0f} %"


def bound_in_words(copied: float, bound: float | None, tolerance: float | None = None) -> str:
    """What a plan copies, and the bound: `copies 412 GiB; no plan within 5 % copies less than ...`.

    `tolerance` None: the bound is for plans that end as even as this one. Empty if nothing is copied or known.
    """
    if not copied or not bound:
        return ""
    as_even = "as even" if tolerance is None else f"within {share_in_words(tolerance)}"
    above = copied / bound - 1
    over = f"{share_in_words(above)} above the bound" if above > 0 else "exactly the bound"
    return f"copies {bytes_in_words(copied)}; no plan {as_even} copies less than {bytes_in_words(bound)} ({over})"
