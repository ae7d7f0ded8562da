"""Recorded changes held against the model of KRaft's controller: each record of the real one must be the model's."""

from __future__ import annotations

from typing import Any

from support.kraft_model.cluster_metadata import Image, Partition, Refused
from support.kraft_model.model_controller import ModelController

TOPIC = "t"
ENTITY = f"topics/{TOPIC}"
Step = list[Any]


def replay(recording: dict[str, Any], version: str) -> None:
    """Follows the recorded steps one by one. What the model does not do at that point is an AssertionError.

    Not the controller's are the requests, deaths and returns of brokers, and followers that join or leave an ISR.
    """
    model = ModelController(version, dict.fromkeys((1, 2, 3, 4)))
    model.create_topic(TOPIC, {int(number): replicas for number, replicas in recording["before"].items()})
    if "0:" not in str(recording["steps"]):
        lists = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
        model.change_config(ENTITY, [(key, 0, "*") for key in lists])
    told = len(model.log)  # records of the model that the recording has confirmed
    steps = [_as_compared(step) for step in recording["steps"]]
    for at, step in enumerate(steps):
        where = f"{recording['name']}, step {at}: {step}"
        if step[0] in ("alter", "elect", "config", "expand", "delete"):
            assert told == len(model.log), f"{where}; the model has also written {_changes(model, told)}"
            assert _code(model, step) == step[-1], where
            continue
        if told == len(model.log):
            _happen(model, step, steps[at:], where)
        while told < len(model.log) and not _changes(model, told, 1):
            told += 1  # of another topic, or of nothing that was recorded
        assert told < len(model.log), f"{where}; the model writes nothing"
        found = _changes(model, told, 1)
        assert step in found, f"{where}; the model writes {found}"
        told += 1
    assert told == len(model.log), f"{recording['name']}: the model goes on: {_changes(model, told)}"


def _code(model: ModelController, step: Step) -> int:
    """What the model answers to a request."""
    try:
        match step:
            case ["alter", number, target, _]:
                model.alter((TOPIC, number), target)
            case ["elect", number, _]:
                model.elect((TOPIC, number))
            case ["config", operations, _]:
                model.change_config(ENTITY, [tuple(one) for one in operations])
            case ["expand", replicas, _]:
                model.expand(TOPIC, {len(model.image.of_topic(TOPIC)): replicas})
            case ["delete", _]:
                model.delete_topic(TOPIC)
    except Refused as refused:
        return refused.code
    return 0


def _happen(model: ModelController, step: Step, coming: list[Step], where: str) -> None:
    """What others have done, that the controller writes this."""
    match step:
        case ["fence", broker]:
            model.fence(broker)
        case ["unfence", broker]:
            model.unfence(broker)
        case ["change", number, _, _, _, isr, _, _]:
            one = model.image.partitions[TOPIC, number]
            dies = next((after[1] for after in coming if after[0] == "fence"), None)
            gone, came = set(one.isr) - set(isr), set(isr) - set(one.isr)
            if dies in gone and not came and dies == next(iter(gone)):
                model.fence(dies)
            elif came:
                for broker in sorted(came):
                    assert model.join((TOPIC, number), broker), where
            else:
                for broker in sorted(gone):
                    assert model.shrink((TOPIC, number), broker), where


def _changes(model: ModelController, first: int, count: int = 99) -> list[Step]:
    """What these records of the model say."""
    found: list[Step] = []
    for before, after in list(zip(model.log[first - 1 :], model.log[first:], strict=False))[:count]:
        found += _between(before, after)
    return found


def _between(before: Image, after: Image) -> list[Step]:
    found: list[Step] = [["fence", broker] for broker in after.fenced - before.fenced]
    found += [["unfence", broker] for broker in before.fenced - after.fenced]
    for (_, number), one in after.partitions.items():
        if before.partitions.get((TOPIC, number)) != one:
            found.append(_change(number, one))
    old, new = before.config(ENTITY), after.config(ENTITY)
    if TOPIC in after.topics:
        found += [["configs", {key: new.get(key)}] for key in {*old, *new} if old.get(key) != new.get(key)]
    elif TOPIC in before.topics:
        found.append(["gone"])
    return found


def _as_compared(step: Step) -> Step:
    """The order within an ISR is arbitrary."""
    return [*step[:5], sorted(step[5]), *step[6:]] if step[0] == "change" else step


def _change(number: int, one: Partition) -> Step:
    lists = (list(one.replicas), list(one.adding), list(one.removing), sorted(one.isr))
    return ["change", number, *lists, one.leader, one.leader_epoch]
