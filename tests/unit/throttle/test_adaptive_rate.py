"""The rates of a range over load curves on paper, and what each sign asks for."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.documents.json_files import as_read, decode
from kafka_rebalance.documents.rate_steps import BrokerPace, GroupPast, Memory, RateSteps, Sign
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.throttle.adaptive_rate import (
    LAG_LOOKS,
    PROBE_SECONDS,
    RULES,
    GroupLag,
    ShortPartition,
    Sight,
    Step,
    choose,
    rate_ladder,
)
from support.runs.load_curve import MB, Curve

LADDER = rate_ladder(10 * MB, 80 * MB)
TOP, LOWEST = LADDER[-1], LADDER[0]
BOTH = frozenset((1, 2))
QUIET = Memory(looked_at=0.0, paces=tuple(BrokerPace(b, answers=(0.004,) * 3, latencies=(0.01,) * 3) for b in (1, 2)))


def short(in_sync: int, least: int | None, *, missing: int = 3, eligible: int = 0) -> ShortPartition:
    return ShortPartition(TopicPartition("orders", 0), 1, (missing,), in_sync, least, eligible)


def calm(at: float, broker: int) -> float:
    return 0.2


def peak(at: float, broker: int) -> float:
    """High load for half an hour. It begins just after a look."""
    return 0.65 if 601 <= at < 2401 else 0.2


# --- the ladder ---


@pytest.mark.parametrize(("lowest", "highest"), [(10 * MB, 80 * MB), (1, 2), (7, 8), (1, 2**62), (999_983, 1_000_003)])
def test_a_ladder_has_both_ends_and_rises_by_the_root_of_two_at_most(lowest: int, highest: int) -> None:
    ladder = rate_ladder(lowest, highest)
    assert (ladder[0], ladder[-1]) == (lowest, highest)
    assert list(ladder) == sorted(set(ladder))
    if highest < 2**32:
        assert all(above <= 1.4143 * below + 1 for below, above in pairwise(ladder))
    assert len(ladder) <= 64


def test_one_rate_has_no_ladder_and_a_range_upside_down_is_an_error() -> None:
    assert rate_ladder(5, 5) == ()
    with pytest.raises(ValueError, match="6 to 5"):
        rate_ladder(6, 5)


# --- over load curves ---


def test_a_calm_cluster_reaches_the_highest_rate_step_by_step() -> None:
    found = Curve(calm, 60_000 * MB).with_rules(LADDER)
    assert found.rates[0] != found.rates[-1]
    first = next(at for at, rates in enumerate(found.rates) if set(rates.values()) == {TOP})
    assert first <= 15 * (len(LADDER) + 1)
    firsts = list(dict.fromkeys(rates[1] for rates in found.rates[:first]))
    assert firsts == list(LADDER[:-1]), "no rung is passed over"
    assert found.worst() < 0.85


def test_a_peak_brings_the_rates_down_and_they_rise_again_after_it() -> None:
    found = Curve(peak, 400_000 * MB).with_rules(LADDER)
    assert set(found.rates[600].values()) == {TOP}
    assert max(rates[1] for rates in found.rates[640:2400]) < TOP
    assert found.rates[-1][1] == TOP


def test_it_takes_no_longer_than_the_best_fixed_rate_with_the_same_limit_and_is_as_quiet() -> None:
    curve = Curve(peak, 400_000 * MB)
    found = curve.with_rules(LADDER)
    limit = 0.93  # of a network in use
    best = max(rate for rate in range(10 * MB, 81 * MB, MB) if curve.use(1000, 1, rate) <= limit)
    fixed = curve.at_one_rate(best)
    assert fixed.worst() <= limit
    print(f"{found.seconds:.0f} s of {fixed.seconds:.0f} s, p99 {found.p99_answer():.4f} of {fixed.p99_answer():.4f} s")
    assert found.seconds <= 1.1 * fixed.seconds
    assert found.p99_answer() <= 1.1 * fixed.p99_answer()


def test_an_incident_is_answered_within_one_look_and_new_moves_wait() -> None:
    def lost(at: float) -> tuple[ShortPartition, ...]:
        return (short(1, 1, missing=9),) if 700 <= at < 1000 else ()

    found = Curve(calm, 100_000 * MB, short=lost).with_rules(LADDER)
    assert set(found.rates[699].values()) == {TOP}
    for at in range(715, 1000):
        assert set(found.rates[at].values()) == {LOWEST}
        assert found.waited[at]
    assert not found.waited[1015]
    assert found.rates[-1][1] > LOWEST


def test_a_slow_broker_gets_less_and_the_others_keep_theirs() -> None:
    found = Curve(calm, 60_000 * MB, slow=lambda at, broker: 20.0 if broker == 2 and at >= 300 else 1.0).with_rules(
        LADDER
    )
    assert found.rates[299][2] == TOP
    for rates in found.rates[600:700]:
        assert rates[2] == LOWEST
        assert {rates[b] for b in (1, 3, 4)} == {TOP}
    assert {why[0].sign for _, broker, *_, why in found.changes if broker == 2 and _ is not None} >= {Sign.SLOW_ANSWER}


def test_a_steady_high_load_makes_few_changes() -> None:
    found = Curve(lambda at, broker: 0.6, 60_000 * MB).with_rules(LADDER)
    hour = [change for change in found.changes if change[1] == 1 and 600 <= change[0] < 4200]
    assert len(hour) <= 2 * 3600 / PROBE_SECONDS, hour


# --- what each sign asks for ---


def test_every_sign_has_one_rule() -> None:
    assert sorted(rule.sign for rule in RULES) == sorted(Sign)


def after(sight: Sight, memory: Memory = QUIET, rate: int = LADDER[4]) -> tuple[dict[int, int], object]:
    _, chosen = choose(LADDER, memory, sight, {1: rate, 2: rate})
    return dict(chosen.rates), chosen.waiting_for


@pytest.mark.parametrize(
    "one", [short(1, 2), short(1, 1), short(2, 1, eligible=1), short(2, None), short(0, 1)], ids=str
)
def test_at_or_under_min_isr_all_rates_are_the_lowest_and_new_moves_wait(one: ShortPartition) -> None:
    rates, waiting = after(Sight(copying=BOTH, at=100, short=(one,)))
    assert rates == {1: LOWEST, 2: LOWEST}
    assert waiting == (one,)


def test_a_replica_that_falls_out_halves_the_rates_of_its_broker_and_its_leader() -> None:
    rates, waiting = after(Sight(copying=BOTH, at=100, short=(short(2, 1, missing=9),)))
    assert rates == {1: LADDER[2], 2: LADDER[4]}, "and nothing rises elsewhere while a partition lacks a replica"
    assert waiting is None


def test_what_was_out_before_holds_the_rates_and_no_more() -> None:
    rates, _ = after(Sight(copying=BOTH, at=100, short=(short(2, 1, missing=9),)), replace(QUIET, behind=((9, 1),)))
    assert rates == {1: LADDER[4], 2: LADDER[4]}


@pytest.mark.parametrize(
    ("sight", "rung"),
    [
        (Sight(copying=BOTH, at=100, answers={1: 0.2, 2: 0.004}), 2),
        (Sight(copying=BOTH, at=100, answers={1: None, 2: 0.004}), 2),
        (Sight(copying=BOTH, at=100, network={1: 0.9, 2: 0.1}), 3),
        (Sight(copying=BOTH, at=100, latency={1: 0.05, 2: 0.01}), 2),
    ],
)
def test_what_one_broker_shows_concerns_it_alone(sight: Sight, rung: int) -> None:
    assert after(sight)[0] == {1: LADDER[rung], 2: LADDER[5]}


@pytest.mark.parametrize("part", ["isr", "answers", "lags", "network_use", "produce_latency"])
def test_what_cannot_be_read_raises_nothing_and_stops_nothing(part: str) -> None:
    unread = {"isr": "short", "lags": "lags", "network_use": "network", "produce_latency": "latency"}
    sight = Sight(
        copying=BOTH, at=100, unread={part: "nobody answers"}, **({unread[part]: None} if part in unread else {})
    )  # type: ignore[arg-type]
    _, chosen = choose(LADDER, QUIET, sight, {1: LOWEST, 2: TOP})
    assert dict(chosen.rates) == {1: LOWEST, 2: TOP}
    assert chosen.waiting_for is None
    assert chosen.held_by, "the page says why no rate rises"


def test_only_the_lag_of_a_group_that_commits_and_falls_behind_counts() -> None:
    memory, rates = Memory(), {1: LOWEST}
    for look in range(2):
        memory, _ = choose(LADDER, memory, Sight(copying=BOTH, at=look, lags=_lags(look, 100)), {1: LOWEST})
    for look in range(2, 3 + LAG_LOOKS):
        memory, chosen = choose(LADDER, memory, Sight(copying=BOTH, at=look, lags=_lags(look, 100 * look)), {1: TOP})
        rates = dict(chosen.rates)
    assert rates == {1: LADDER[-2]}
    memory, chosen = choose(LADDER, memory, Sight(copying=BOTH, at=9, lags=_lags(0, 9000)), {1: TOP})
    assert chosen.rates == {1: TOP}, "it commits no longer"


def _lags(committed: int, records: int) -> dict[str, GroupLag]:
    return {"billing": GroupLag(committed, records), "gone": GroupLag(7, 10_000 * (committed + 1))}


def test_after_a_fall_for_load_the_rate_is_not_tried_again_for_a_while() -> None:
    now = {1: LADDER[4]}
    memory, chosen = choose(LADDER, QUIET, Sight(copying=BOTH, at=100, answers={1: 0.2}), now)
    at = 100.0
    while at < 100 + PROBE_SECONDS - 15:
        at += 15
        memory, chosen = choose(LADDER, memory, Sight(copying=BOTH, at=at, answers={1: 0.004}), chosen.rates)
    assert chosen.rates == {1: LADDER[3]}
    assert [reason.sign for reason in chosen.held_by] == [Sign.PROBED]
    _, chosen = choose(LADDER, memory, Sight(copying=BOTH, at=at + 15, answers={1: 0.004}), chosen.rates)
    assert chosen.rates == {1: LADDER[4]}


def test_after_an_incident_two_quiet_looks_come_before_the_first_rise() -> None:
    memory, chosen = choose(LADDER, QUIET, Sight(copying=BOTH, at=100, short=(short(1, 1),)), {1: TOP})
    rates = []
    for at in (115, 130, 145, 160):
        memory, chosen = choose(LADDER, memory, Sight(copying=BOTH, at=at), chosen.rates)
        rates.append(chosen.rates[1])
    assert rates == [LOWEST, LOWEST, LADDER[1], LADDER[2]]


def test_a_rate_that_proves_too_high_again_and_again_is_tried_more_and_more_rarely() -> None:
    memory, at = QUIET, 0.0
    pauses = []
    for _ in range(5):
        memory, chosen = choose(LADDER, memory, Sight(copying=BOTH, at=at, answers={1: 0.2}), {1: LADDER[4]})
        fell = at
        while chosen.rates[1] < LADDER[4]:
            at += 15
            memory, chosen = choose(LADDER, memory, Sight(copying=BOTH, at=at, answers={1: 0.004}), chosen.rates)
        pauses.append(at - fell)
    assert pauses == [600, 1200, 2400, 4800, 4800]


def test_no_step_leaves_the_ladder() -> None:
    for rule in RULES:
        assert rule.step in Step
    for at_end in (LOWEST, TOP):
        for sight in (
            Sight(copying=BOTH, at=1),
            Sight(copying=BOTH, at=1, short=(short(1, 1),)),
            Sight(copying=BOTH, at=1, answers={1: 9.0, 2: 9.0}),
        ):
            assert set(after(sight, rate=at_end)[0].values()) <= set(LADDER)


def test_what_a_look_leaves_is_the_same_after_it_was_written_and_read() -> None:
    sight = Sight(copying=BOTH, at=100, short=(short(2, 1),), answers={1: 0.2, 2: None}, lags=_lags(1, 5))
    memory, chosen = choose(LADDER, QUIET, sight, {1: TOP, 2: TOP})
    steps = RateSteps((4,), memory, held_by=chosen.held_by)
    assert decode(RateSteps, as_read(steps), "rate_steps.json") == steps
    assert memory.groups[0] == GroupPast("gone", 7, (20_000,), 20_000)


# --- whatever a look shows ---

SHORT = st.builds(
    ShortPartition,
    st.builds(TopicPartition, st.sampled_from(["orders", "audit"]), st.integers(0, 3)),
    st.integers(-1, 4),
    st.lists(st.integers(1, 4), min_size=1, max_size=2, unique=True).map(tuple),
    st.integers(0, 3),
    st.none() | st.integers(1, 3),
    st.integers(0, 1),
)
BY_BROKER = st.dictionaries(st.integers(1, 4), st.floats(0, 2))
SIGHT = st.builds(
    Sight,
    at=st.floats(1, 10_000),
    copying=st.frozensets(st.integers(1, 4)),
    short=st.none() | st.lists(SHORT, max_size=3).map(tuple),
    answers=st.dictionaries(st.integers(1, 4), st.none() | st.floats(0, 2)),
    lags=st.none() | st.just({}),
    network=st.none() | BY_BROKER,
    latency=st.none() | BY_BROKER,
    unread=st.dictionaries(st.sampled_from(["isr", "answers", "lags", "network_use"]), st.just("silent"), max_size=1),
)


@given(st.lists(SIGHT, min_size=1, max_size=8), st.dictionaries(st.integers(1, 4), st.sampled_from(LADDER), min_size=1))
def test_whatever_looks_show_rates_stay_on_the_ladder_rise_by_one_step_and_never_on_what_is_unknown(
    sights: list[Sight], now: dict[int, int]
) -> None:
    memory = Memory()
    for sight in sights:
        before = now
        memory, chosen = choose(LADDER, memory, sight, before)
        now = dict(chosen.rates)
        rises = {broker for broker in now if now[broker] > before[broker]}
        assert now.keys() == before.keys()
        assert all(LADDER.index(now[broker]) == LADDER.index(before[broker]) + 1 for broker in rises)
        assert rises <= sight.copying
        assert not (rises and (sight.unread or sight.short))
        assert chosen.reasons.keys() == {broker for broker in now if now[broker] != before[broker]}
        at_least = any(one.is_at_min or one.is_under_min for one in sight.short or ())
        assert (chosen.waiting_for is not None) == at_least
        assert not at_least or set(now.values()) == {LOWEST}
        full = {broker for broker, use in (sight.network or {}).items() if use > 0.8}
        assert not rises & full
