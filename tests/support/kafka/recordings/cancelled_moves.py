"""What a cancelled reassignment does on a simulated cluster, as it was seen on 2.0.1, 2.8.2 and 3.9.2."""

from __future__ import annotations

from collections.abc import Collection

from kafka_rebalance.model.partition import TopicPartition
from support.zookeeper.fake_zookeeper import REASSIGN, FakeZooKeeper, SimulatedController


def fail_over(fake: FakeZooKeeper, controller: SimulatedController) -> None:
    """From now on a deleted `/controller` is followed by another one, which knows only what is written."""

    def elect(call: str, path: str) -> None:
        if (call, path) != ("delete", "/controller"):
            return
        fake.set("/controller_epoch", str(int(fake.get("/controller_epoch")[0]) + 1).encode())
        broker = max(map(int, fake.get_children("/brokers/ids")))
        fake.put_json("/controller", {"version": 1, "brokerid": broker, "timestamp": "1529210279988"}, ephemeral=True)
        controller._targets.clear()
        controller._origins.clear()
        controller._taken = None

    fake.after_write.append(elect)


def cancel_by_api(
    fake: FakeZooKeeper, controller: SimulatedController, partitions: Collection[TopicPartition]
) -> frozenset[TopicPartition]:
    """AlterPartitionReassignments with None: at once back to the interim list less what was added, in that order."""
    cancelled = set()
    for key in partitions:
        if REASSIGN in fake.znodes and fake.znodes[REASSIGN].czxid != controller._taken:
            controller.step()
        if tuple(key) not in controller._targets:
            continue
        target = controller._targets.pop(key)
        before = controller._origins.pop(key)
        kept = [broker for broker in (*target, *(b for b in before if b not in target)) if broker in before]
        path = f"/brokers/topics/{key[0]}"
        document = fake.json(path)
        document["partitions"][str(key[1])] = kept
        for name in ("adding_replicas", "removing_replicas"):
            document[name].pop(str(key[1]), None)
        fake.put_json(path, document)
        state_path = f"{path}/partitions/{key[1]}/state"
        state = fake.json(state_path)
        isr = [broker for broker in state["isr"] if broker in before]
        leader = state["leader"] if state["leader"] in isr else isr[0]
        fake.put_json(state_path, {**state, "isr": isr, "leader": leader, "leader_epoch": state["leader_epoch"] + 1})
        cancelled.add(TopicPartition(*key))
        if REASSIGN in fake.znodes:
            left = [e for e in fake.json(REASSIGN)["partitions"] if (e["topic"], e["partition"]) != tuple(key)]
            fake.put_json(REASSIGN, {"version": 1, "partitions": left})
        controller._rewrite_request()
    return frozenset(cancelled)
