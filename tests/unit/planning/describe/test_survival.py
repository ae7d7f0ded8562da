"""`survive`: the loss of a broker or a rack is never too much for the others, in the batches of a plan and after it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kafka_rebalance.documents.candidate_notes import NoteKind
from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.candidate import Status, candidate_digest
from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.describe.survival import survival
from kafka_rebalance.planning.recommendation import recommend
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, plan_of, problem_of

RACKS = {1: "a", 2: "a", 3: "b", 4: "b"}
HEADROOM = 0.1


def figures_of(plan: DescribedCandidate, kind: NoteKind) -> Mapping[str, Any]:
    return next(one.figures for one in plan.notes if one.kind is kind)


def kinds_of(plan: DescribedCandidate) -> set[NoteKind]:
    return {one.kind for one in plan.notes}


def four_brokers(capacity: int, **networks: int) -> Rows:
    columns = {"disk_capacity_bytes": dict.fromkeys(RACKS, capacity)}
    columns |= {column: dict.fromkeys(RACKS, most) for column, most in networks.items()}
    return broker_rows(RACKS, RACKS, **columns)


UNEVEN = partition_rows([[1, 3]] * 6 + [[2, 4]] * 2, bytes_in_per_second=[100.0] * 8)


def test_a_plan_after_which_every_loss_fits_says_how_near_it_comes() -> None:
    plan = plan_of(
        four_brokers(10_000, nic_in_bytes_per_second=5000, nic_out_bytes_per_second=5000), UNEVEN, survive="broker"
    )
    figures = figures_of(plan, NoteKind.LOSSES_SURVIVED)
    # Each broker holds 4,000 bytes in the end. The loss of one brings the other of its rack to 8,000 of 9,000.
    assert (figures["resource"], round(figures["part"], 3)) == ("disk", 0.889)
    assert plan.candidate.status is Status.OK


def test_a_loss_that_no_plan_survives_is_told_with_the_brokers_that_are_missing() -> None:
    plan = plan_of(four_brokers(8_000), UNEVEN, survive="broker")
    assert plan.candidate.status is Status.INFEASIBLE
    figures = figures_of(plan, NoteKind.LOSS_NOT_SURVIVED)
    assert (figures["resource"], figures["amount"], figures["limit"], figures["batch"]) == ("disk", 8000.0, 7200.0, 0)
    assert (figures["brokers"], figures["rack"]) == (1, RACKS[figures["broker"]])
    assert "1 more broker of the usual size would be needed in rack" in plan.note
    assert not plan.candidate.moves


def test_a_candidate_that_does_not_survive_a_loss_is_not_recommended() -> None:
    problem = problem_of(four_brokers(8_000), UNEVEN, survive="broker")
    plans = [propose(problem, name) for name in ("light", "balanced")]
    assert recommend(problem.settings, plans).candidate is None


def three_brokers(capacity: int) -> Rows:
    return broker_rows([1, 2, 3], disk_capacity_bytes=dict.fromkeys([1, 2, 3], capacity))


def test_the_search_brings_down_a_broker_within_the_tolerance_whose_loss_would_be_too_much() -> None:
    # 5,000, 3,000 and 1,000 bytes: with the loss of broker 2 broker 1 would have 6,500 of 5,400.
    lists = partition_rows([[1]] * 5 + [[2]] * 3 + [[3]])
    assert plan_of(three_brokers(6_000), lists, tolerance=0.9).copied_bytes == 0
    plan = plan_of(three_brokers(6_000), lists, tolerance=0.9, survive="broker")
    assert figures_of(plan, NoteKind.LOSSES_SURVIVED)["part"] <= 1
    assert plan.copied_bytes > 0


def test_a_given_plan_is_judged_by_the_same_rule() -> None:
    lists = partition_rows([[1]] * 3 + [[2]] * 3 + [[3]] * 3)
    moves = [{"topic": "orders", "partition": number, "replicas": [1]} for number in (6, 7)]
    asked = {"plan": json.dumps({"version": 1, "partitions": moves}), "tolerance": 0.9}
    assert plan_of(three_brokers(6_000), lists, "given", **asked).candidate.status is Status.OK
    plan = plan_of(three_brokers(6_000), lists, "given", **asked, survive="broker")
    assert plan.candidate.status is Status.INFEASIBLE
    assert figures_of(plan, NoteKind.LOSS_NOT_SURVIVED)["amount"] == 6500


def test_a_network_of_unknown_capacity_is_told_and_never_taken_as_enough() -> None:
    plan = plan_of(four_brokers(20_000), UNEVEN, survive="broker")
    assert figures_of(plan, NoteKind.SURVIVAL_UNKNOWN)["columns"] == (
        "nic_in_bytes_per_second",
        "nic_out_bytes_per_second",
    )
    assert plan.candidate.status is Status.PARTIAL


def test_a_rack_that_is_lost_is_not_copied_anew_if_a_copy_would_share_a_rack() -> None:
    # Two racks and two replicas: the disks of the other rack stay as they are, and its leaders lead all.
    lists = partition_rows([[1, 3], [3, 1], [2, 4], [4, 2]] * 2, bytes_in_per_second=[100.0] * 8)
    brokers = broker_rows(
        RACKS,
        RACKS,
        disk_capacity_bytes=dict.fromkeys(RACKS, 10_000),
        nic_in_bytes_per_second=dict.fromkeys(RACKS, 5_000),
        nic_out_bytes_per_second=dict.fromkeys(RACKS, 1_000),
    )
    plan = plan_of(brokers, lists, survive="rack")
    assert plan.candidate.status is Status.OK
    for row in brokers:
        row["nic_out_bytes_per_second"] = 300
    assert figures_of(plan_of(brokers, lists, survive="rack"), NoteKind.LOSS_NOT_SURVIVED)["resource"] == "sent"


def test_a_rack_that_is_lost_is_copied_anew_to_more_racks_than_replicas() -> None:
    racks = {broker: "abc"[broker % 3] for broker in range(1, 10)}
    lists = partition_rows([[1 + n % 9, 1 + (n + 1) % 9] for n in range(18)])
    brokers = broker_rows(racks, racks, disk_capacity_bytes=dict.fromkeys(racks, 7_000))
    # Each broker holds 4,000 bytes. A lost rack's 12,000 are shared by six.
    plan = plan_of(brokers, lists, survive="rack")
    assert figures_of(plan, NoteKind.LOSSES_SURVIVED)["part"] == pytest.approx(6000 / 6300)


def test_a_plan_that_a_limit_stops_on_its_way_is_offered_if_it_lessens_what_is_too_much() -> None:
    lists = partition_rows([[1]] * 8 + [[2]] * 7)
    plan = plan_of(three_brokers(10_000), lists, survive="broker", max_bytes=1_000)
    assert plan.candidate.status is Status.PARTIAL
    figures = figures_of(plan, NoteKind.LOSS_NOT_YET_SURVIVED)
    # 8,000 and a half of 7,000 now, of 9,000 at most.
    assert figures["now"] == pytest.approx(11.5 / 9)
    assert figures["breach"].figures["amount"] == 10_500
    assert NoteKind.LOSSES_SURVIVED in kinds_of(plan_of(three_brokers(10_000), lists, survive="broker"))


def test_batches_are_smaller_where_both_copies_of_more_would_be_too_much_after_a_loss() -> None:
    # Broker 1 and 2 hold 8,000 bytes together, and one more copy at a time leaves them at 9,000.
    plan = plan_of(four_brokers(10_000), UNEVEN, survive="broker")
    batches = [move.batch for move in plan.candidate.moves if move.added]
    assert len(batches) == len(set(batches)) > 1


def test_a_job_that_is_impossible_anyway_keeps_the_digest_of_its_settings() -> None:
    lists = partition_rows([[1, 3]] * 4)  # only broker 1 may receive, which has all of them
    problem = problem_of(broker_rows([1, 2, 3]), lists, job="drain", drain=[3], brokers_in=[1], survive="broker")
    plan = propose(problem, "light")
    assert plan.candidate.status is Status.INFEASIBLE
    settings_of = problem.settings.to_mapping()
    assert plan.candidate.digest == candidate_digest("light", problem.snapshot_digest, settings_of, ())


@pytest.mark.parametrize(
    ("ids", "survive", "why"),
    [([1], "broker", "1 broker stays"), ([1, 2, 3], "rack", "in 0 known racks")],
)
def test_a_loss_that_leaves_nobody_is_refused_and_never_survived(ids: list[int], survive: str, why: str) -> None:
    with pytest.raises(PlanningError, match=why):
        problem_of(broker_rows(ids), partition_rows([[1]]), survive=survive)


# An independent judge: it carries out the moves batch by batch on lists of ids, and loses each broker and rack in turn.

Lists = Mapping[tuple[str, int], Sequence[int]]


def lost_sets(ids: Sequence[int], racks: Mapping[int, str], survive: str) -> list[tuple[Any, set[int], set[int], bool]]:
    """(name, what is lost, who takes, whether it is a rack)"""
    found: list[tuple[Any, set[int], set[int], bool]] = []
    for broker in ids:
        beside = {one for one in ids if one != broker and broker in racks and racks[one] == racks[broker]}
        if beside:
            found.append((broker, {broker}, beside, False))
        elif not (survive == "rack" and racks):
            found.append((broker, {broker}, set(ids) - {broker}, False))
    if survive == "rack" and len(set(racks.values())) > 1:
        for rack in sorted(set(racks.values())):
            lost = {one for one in ids if racks[one] == rack}
            found.append((rack, lost, set(ids) - lost, True))
    return [one for one in found if one[2]]


def parts(
    brokers: Rows, partitions: Rows, lists: Lists, leaders: Mapping[tuple[str, int], int], extra: Lists, survive: str
) -> dict[Any, float]:
    """{loss: the most of its limit that a broker then uses}; `extra` are replicas that exist besides the lists."""
    rows = {(row["topic"], row["partition"]): row for row in partitions}
    ids = [row["broker"] for row in brokers]
    table = {row["broker"]: row for row in brokers}
    racks = {row["broker"]: row["rack"] for row in brokers if row["rack"] is not None}
    found: dict[Any, float] = {}
    for name, lost, takes, is_rack in lost_sets(ids, racks, survive):
        disk: dict[int, float] = defaultdict(float)
        received: dict[int, float] = defaultdict(float)
        sent: dict[int, float] = defaultdict(float)
        together = sum(table[one]["disk_capacity_bytes"] for one in takes)
        for key, replicas in lists.items():
            size, rate = rows[key]["size_bytes"], rows[key]["bytes_in_per_second"]
            everywhere = [*replicas, *extra.get(key, ())]
            gone = [one for one in everywhere if one in lost]
            anew = not is_rack or len(replicas) <= len({racks[one] for one in takes})
            for one in everywhere:
                if one not in lost:
                    disk[one] += size
                    received[one] += rate
            for one in takes:
                share = table[one]["disk_capacity_bytes"] / together
                if anew:
                    disk[one] += len(gone) * size * share
                    received[one] += len(gone) * rate * share
            leader = leaders[key]
            if leader in lost:
                leader = next((one for one in replicas if one not in lost), -1)
            followers = len(replicas) - 1 - (0 if anew else sum(one in lost for one in replicas))
            if leader >= 0:
                sent[leader] += rate * followers + rate  # and one reader
        worst = 0.0
        for one in ids:
            if one not in lost:
                worst = max(worst, sent[one] / table[one]["nic_out_bytes_per_second"])
            if one in takes:
                worst = max(worst, disk[one] / (table[one]["disk_capacity_bytes"] * (1 - HEADROOM)))
                worst = max(worst, received[one] / table[one]["nic_in_bytes_per_second"])
        found[name] = worst
    return found


def course(brokers: Rows, partitions: Rows, plan: DescribedCandidate, survive: str) -> list[dict[Any, float]]:
    """The parts now, in each batch, and after the plan."""
    lists = {(row["topic"], row["partition"]): tuple(row["replicas"]) for row in partitions}
    leaders = {key: replicas[0] for key, replicas in lists.items()}
    found = [parts(brokers, partitions, lists, leaders, {}, survive)]
    for batch in sorted({move.batch for move in plan.candidate.moves if move.batch > 0}):
        moves = [move for move in plan.candidate.moves if move.batch == batch]
        extra = {
            (move.topic_partition.topic, move.topic_partition.partition): [
                one for one in move.after if one not in move.before
            ]
            for move in moves
        }
        found.append(parts(brokers, partitions, lists, leaders, extra, survive))
        for move in moves:
            lists[(move.topic_partition.topic, move.topic_partition.partition)] = move.after
            leaders[(move.topic_partition.topic, move.topic_partition.partition)] = move.after[0]
    for move in plan.candidate.moves:
        lists[(move.topic_partition.topic, move.topic_partition.partition)] = move.after
        leaders[(move.topic_partition.topic, move.topic_partition.partition)] = move.after[0]
    found.append(parts(brokers, partitions, lists, leaders, {}, survive))
    return found


@st.composite
def drawn(draw: st.DrawFn) -> tuple[Rows, Rows]:
    """Brokers of known sizes in one to three racks, and lists that keep the rack rule; disks and networks are tight."""
    kinds = draw(st.integers(1, 3))
    ids = list(range(1, 1 + kinds * draw(st.integers(2, 3)) + draw(st.integers(0, 1))))
    racks = {broker: "abc"[broker % kinds] for broker in ids}
    factor = draw(st.integers(1, min(3, len(ids))))
    lists = []
    for _ in range(draw(st.integers(4, 14))):
        chosen: list[int] = []
        for broker in draw(st.permutations(ids)):
            in_others = {racks[one] for one in chosen}
            if len(chosen) < factor and (racks[broker] not in in_others or len(in_others) == kinds):
                chosen.append(broker)
        lists.append(chosen)
    sizes = [draw(st.sampled_from([500, 1000, 3000])) for _ in lists]
    rates = [float(draw(st.sampled_from([10, 100, 200]))) for _ in lists]
    held = factor * sum(sizes) / len(ids)
    moved = factor * sum(rates) / len(ids)
    tight = draw(st.sampled_from([1.2, 1.5, 2.0, 3.0]))
    columns: dict[str, dict[int, float]] = {
        "disk_capacity_bytes": {},
        "nic_in_bytes_per_second": {},
        "nic_out_bytes_per_second": {},
    }
    for broker in ids:
        size = draw(st.sampled_from([1, 1, 1, 2]))
        columns["disk_capacity_bytes"][broker] = int(held * tight * 2 * size)
        columns["nic_in_bytes_per_second"][broker] = int(moved * tight * 4)
        columns["nic_out_bytes_per_second"][broker] = int(moved * tight * 4)
    partitions = partition_rows(lists)
    for row, size, rate in zip(partitions, sizes, rates, strict=True):
        row |= {"size_bytes": size, "bytes_in_per_second": rate}
    return broker_rows(ids, racks if kinds > 1 else None, **columns), partitions


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    drawn(),
    st.sampled_from(["broker", "rack"]),
    st.sampled_from(["light", "balanced", "optimal"]),
    st.sampled_from([0.1, 0.5]),
)
def test_an_independent_judge_finds_no_loss_that_an_offered_plan_does_not_survive(
    cluster: tuple[Rows, Rows], survive: str, name: str, tolerance: float
) -> None:
    brokers, partitions = cluster
    assume(survive == "broker" or len({row["rack"] for row in brokers}) > 1)
    plan = plan_of(
        brokers, partitions, name, survive=survive, tolerance=tolerance, partitions_per_batch=3, copies_per_broker=1
    )
    if plan.candidate.status not in (Status.OK, Status.PARTIAL):
        return
    now, *meanwhile, after = course(brokers, partitions, plan, survive)
    assert max(after.values(), default=0.0) <= 1 + 1e-6
    for batch in meanwhile:
        for loss, part in batch.items():
            assert part <= 1 + 1e-6 or now[loss] > 1, loss
    if NoteKind.LOSSES_SURVIVED in kinds_of(plan):
        assert figures_of(plan, NoteKind.LOSSES_SURVIVED)["part"] == pytest.approx(max(after.values()))


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn(), st.sampled_from(["broker", "rack"]))
def test_the_worst_loss_of_given_lists_is_the_one_that_the_judge_counts(
    cluster: tuple[Rows, Rows], survive: str
) -> None:
    brokers, partitions = cluster
    assume(survive == "broker" or len({row["rack"] for row in brokers}) > 1)
    problem = problem_of(brokers, partitions, survive=survive)
    same = np.zeros(len(partitions), dtype=np.int64)
    found = survival(problem, problem.replicas, problem.leader, same, moves_replicas=True)
    lists = {(row["topic"], row["partition"]): tuple(row["replicas"]) for row in partitions}
    leaders = {key: replicas[0] for key, replicas in lists.items()}
    judged = parts(brokers, partitions, lists, leaders, {}, survive)
    assert found is not None
    assert found.nearest is not None
    assert found.nearest.part == pytest.approx(max(judged.values()))
    assert judged[found.nearest.lost] == pytest.approx(found.nearest.part)
