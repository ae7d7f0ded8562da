"""Recorded moves held against the model of the controller: each write of the real one must be what the model does."""

from __future__ import annotations

from typing import Any

from support.kafka.controller_model import ModelController
from support.zookeeper.fake_zookeeper import REASSIGN, fake_cluster

TOPIC = "t"
PATH = f"/brokers/topics/{TOPIC}"


def replay(recording: dict[str, Any], version: str) -> None:
    """Follows the recorded steps one by one. What the model cannot do at that point is an AssertionError.

    Not the controller's are: the first request, followers that join the ISR (the epoch stays), the deletion of the
    znode by hand, another controller's election and the target that is started late.
    """
    before = {int(p): replicas for p, replicas in recording["before"].items()}
    fake = fake_cluster({TOPIC: before}, version=version)
    steps = recording["steps"]
    by_hand = recording["name"] == "deleted"
    late = 4 if recording["name"] == "dead-target" else None
    if late is not None:
        fake.delete(f"/brokers/ids/{late}")
    at = 0

    def as_recorded(several: Any) -> Any:
        """The order in which the rest of the recording names them."""
        return sorted(several, key=lambda one: _first(steps[at:], one))

    controllers = [ModelController(fake, version, as_recorded)]
    while controllers[0].step():
        pass
    for at, step in enumerate(steps):
        where = f"{recording['name']}, step {at}: {step}"
        if step[0] == "controller":
            controllers[0].retire()
            controllers.insert(0, ModelController(fake, version, as_recorded))
        elif at == 0:
            entries = [{"topic": TOPIC, "partition": int(p), "replicas": r} for p, r in step[1].items()]
            fake.put_json(REASSIGN, {"version": 1, "partitions": entries})
        elif by_hand and step == ["request", None]:
            fake.delete(REASSIGN)
            by_hand = False
        elif step[0] == "state" and step[3] == _state(fake, step[1])["leader_epoch"]:
            now = _state(fake, step[1])
            assert step[2] == now["leader"], where
            assert set(step[4]) > set(now["isr"]), where
            fake.put_json(f"{PATH}/partitions/{step[1]}/state", {**now, "isr": step[4]})
        else:
            # Below 2.1 one that was voted out may still end what it is at: it is asked first, before another reads.
            able = [one for one in reversed(controllers) if one.active or version == "2.0"]
            if late is not None and not any(_same(one.peek(), step) for one in able):
                fake.put_json(f"/brokers/ids/{late}", fake.json("/brokers/ids/1"), ephemeral=True)
                controllers[0].tell("up", late)
                late = None
            fitting = next((one for one in able if _same(one.peek(), step)), None)
            assert fitting, f"{where}; the model would write {[one.peek() for one in able]}"
            fitting.step()
    assert controllers[0].peek() is None, f"{recording['name']}: the model would go on: {controllers[0].peek()}"
    after = {int(p): replicas for p, replicas in recording["after"].items() if int(p) in before}
    assert {int(p): r for p, r in fake.json(PATH)["partitions"].items()} == after


def _state(fake: Any, partition: int) -> Any:
    return fake.json(f"{PATH}/partitions/{partition}/state")


def _same(write: tuple[str, str, Any] | None, step: list[Any]) -> bool:
    """Whether the model's write is the recorded one; the order within an ISR is arbitrary."""
    if write is None:
        return False
    call, path, content = write
    match step:
        case ["request", None]:
            return (call, path) == ("delete", REASSIGN)
        case ["request", asked]:
            same = {str(e["partition"]): e["replicas"] for e in content["partitions"]} if path == REASSIGN else None
            return call == "set" and same == asked
        case ["topic", lists, adding, removing]:
            marks = tuple((content or {}).get(name, {}) for name in ("adding_replicas", "removing_replicas"))
            return path == PATH and content["partitions"] == lists and marks == (adding, removing)
        case ["state", partition, leader, epoch, isr]:
            if path != f"{PATH}/partitions/{partition}/state":
                return False
            now = (content["leader"], content["leader_epoch"], sorted(content["isr"]))
            return now == (leader, epoch, sorted(isr))
    raise AssertionError(f"an unknown step: {step}")


def _first(steps: list[list[Any]], one: Any) -> int:
    """Where the steps first name this partition, or first show an ISR without this broker."""
    for number, step in enumerate(steps):
        if step[0] != "state":
            continue
        if (isinstance(one, tuple) and step[1] == one[1]) or (isinstance(one, int) and one not in step[4]):
            return number
    return len(steps)
