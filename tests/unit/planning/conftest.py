"""What these tests hold does not depend on how long the solver searches for cheaper lists, which is most of a plan's
time. So each of its steps searches a tenth as long as it may; the tests of that search itself have all of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_rebalance.planning.search import optimal


@pytest.fixture(scope="module", autouse=True)
def brief_search() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimal, "_WORK", optimal._WORK // 10)
        yield
