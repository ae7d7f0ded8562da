"""What the verification says of each replica's log dir."""

from __future__ import annotations

from kafka_rebalance.documents.log_dir_plan import LogDirMove
from kafka_rebalance.log_dirs.rules import check_log_dirs

MOVE = LogDirMove("t", 0, 1, "/a", "/b", 5)


def test_a_replica_passes_only_in_its_log_dir_and_without_a_copy() -> None:
    replica = MOVE.replica
    (good,) = check_log_dirs([MOVE], {replica: "/b"}, {})
    assert (good.passed, good.warns) == (True, False)
    for paths, future in (
        ({replica: "/a"}, {}),
        ({replica: "/b"}, {replica: "/a"}),
        ({replica: "/a"}, {replica: "/b"}),
    ):
        (bad,) = check_log_dirs([MOVE], paths, future)
        assert not bad.passed
        assert bad.subject == "t-0 on broker 1"


def test_a_replica_that_its_broker_no_longer_has_is_a_warning() -> None:
    (gone,) = check_log_dirs([MOVE], {}, {})
    assert gone.warns
