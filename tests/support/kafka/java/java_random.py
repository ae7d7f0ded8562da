"""java.util.Random for tests that draw what Kafka draws."""

from __future__ import annotations

import random

_MASK = (1 << 48) - 1
_MULTIPLIER, _INCREMENT = 0x5DEECE66D, 0xB


class JavaRandom(random.Random):
    """`randrange(bound)` gives what java.util.Random(seed).nextInt(bound) gives."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._state = (seed ^ _MULTIPLIER) & _MASK

    def randrange(self, bound: int) -> int:  # type: ignore[override]
        while True:
            self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
            bits = self._state >> 17
            if bound & -bound == bound:
                return bound * bits >> 31
            # Java's int overflows where the last, incomplete range of numbers begins, and draws again.
            if bits - bits % bound + bound - 1 < 1 << 31:
                return bits % bound
