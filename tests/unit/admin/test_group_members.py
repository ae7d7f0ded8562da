"""What becomes of the answers of brokers and coordinators about groups, as kafka-python decodes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace as Answer
from typing import Any

import pytest
from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from kafka_rebalance.admin import clients, groups
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.consumer_groups import GroupMember, TopicGroups
from kafka_rebalance.model.partition import TopicPartition


def subscribed(*topics: str) -> bytes:
    data: bytes = ConsumerProtocolSubscription(topics=list(topics), user_data=b"", version=0).encode(version=0)
    return data


def assigned(partitions: Mapping[str, list[int]]) -> bytes:
    kind = ConsumerProtocolAssignment.TopicPartition
    listed = [kind(topic=topic, partitions=ids) for topic, ids in partitions.items()]
    data: bytes = ConsumerProtocolAssignment(assigned_partitions=listed, user_data=b"", version=0).encode(version=0)
    return data


def member(name: str, **fields: Any) -> Answer:
    return Answer(member_id=f"{name}-uuid", client_id=name, client_host="/10.0.0.1", **fields)


def classic_member(name: str, metadata: bytes, assignment: bytes = b"") -> Answer:
    return member(name, group_instance_id=None, member_metadata=metadata, member_assignment=assignment)


def classic(name: str, state: str, *members: Answer, protocol: str = "consumer", code: int = 0) -> Answer:
    data = "range" if state == "Stable" else ""
    return Answer(
        error_code=code, group_id=name, group_state=state, protocol_type=protocol, protocol_data=data, members=members
    )


def topic_partitions(partitions: Mapping[str, list[int]]) -> Answer:
    return Answer(topic_partitions=[Answer(topic_name=topic, partitions=ids) for topic, ids in partitions.items()])


def coordinated(
    name: str, topics: list[str], partitions: Mapping[str, list[int]], pattern: str | None = None
) -> Answer:
    """A member of a group whose coordinator assigns the partitions."""
    held = topic_partitions(partitions)
    fields = {"instance_id": None, "subscribed_topic_regex": pattern, "target_assignment": held}
    return member(name, subscribed_topic_names=topics, assignment=held, **fields)


def described(name: str, *members: Answer, code: int = 0, text: str | None = None, **fields: Any) -> Answer:
    state = {"group_state": "Stable", "assignor_name": "uniform", **fields}
    return Answer(error_code=code, error_message=text, group_id=name, members=members, **state)


def streams(name: str, topics: list[str], tasks: list[int]) -> Answer:
    one = Answer(
        subtopology_id="0",
        source_topics=topics,
        repartition_source_topics=[],
        state_changelog_topics=[Answer(name="log")],
    )
    active = Answer(active_tasks=[Answer(subtopology_id="0", partitions=tasks)])
    topology = Answer(subtopologies=[one])
    return described(name, member("s", instance_id=None, assignment=active), topology=topology)


class Brokers:
    """Two brokers. `answers` are by request; a list gives one answer after the other, and keeps the last."""

    def __init__(self, *listed: Any, **answers: Any) -> None:
        self.listed = listed  # (group, type, protocol); all of broker 1
        self.answers = answers
        self.committed: dict[tuple[str, int], int] = {}  # by group and partition
        self.asked: list[tuple[str, Any]] = []
        self.silent: set[int] = set()
        self.leaders = {0: 1, 1: 2}  # of __consumer_offsets
        self.has_offsets_topic = True
        self.may_describe = True
        self.takes_many = True

    def read(self, request: Any, broker: int | None = None, **_: Any) -> Any:
        name = type(request).__name__.removesuffix("Request")
        if broker in self.silent:
            raise ReadError(f"Broker {broker} cannot be read.")
        names = getattr(request, "group_ids", None) or (request.groups if name == "DescribeGroups" else None)
        self.asked.append((name, tuple(names) if names else broker))
        if name in self.answers:
            return self._next(name)
        return getattr(self, f"_{name}")(request, broker)

    def _next(self, name: str) -> Any:
        found = self.answers[name]
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, Exception):
            raise found
        return found

    def _Metadata(self, request: Any, _: object) -> Any:
        brokers = [Answer(node_id=1), Answer(node_id=2)]
        if not request.topics:
            return Answer(brokers=brokers, topics=[])
        assert self.has_offsets_topic, "brokers below 2.8 would make it now"
        (asked,) = request.topics
        partitions = [Answer(partition_index=number, leader_id=leader) for number, leader in self.leaders.items()]
        topic = Answer(name=asked.name, error_code=0, partitions=partitions)
        return Answer(brokers=brokers, topics=[topic])

    def _ListOffsets(self, *_: object) -> Any:
        code = 0 if self.has_offsets_topic else 3  # UNKNOWN_TOPIC_OR_PARTITION
        return Answer(topics=[Answer(partitions=[Answer(error_code=code)])])

    def _DescribeLogDirs(self, *_: object) -> Any:
        return Answer(results=[Answer()] if self.may_describe else [])

    def _ListGroups(self, _: object, broker: int) -> Any:
        kinds = [Answer(group_id=name, group_type=kind, protocol_type=protocol) for name, kind, protocol in self.listed]
        return Answer(error_code=0, groups=kinds if broker == 1 else [])

    def _OffsetFetch(self, request: Any, _: object) -> Any:
        many = bool(request.groups)
        if many and not self.takes_many:
            raise IncompatibleBrokerVersion("too old")
        found = [self._of_group(one.group_id, one.topics) for one in request.groups or ()]
        return Answer(groups=found) if many else self._of_group(request.group_id, request.topics)

    def _of_group(self, name: str, topics: Any) -> Any:
        asked = {("t", number): -1 for topic in topics or () for number in topic.partition_indexes}
        told = asked | {("t", number): offset for (group, number), offset in self.committed.items() if group == name}
        partitions = [
            Answer(partition_index=number, committed_offset=offset, error_code=0)
            for (_, number), offset in told.items()
        ]
        return Answer(group_id=name, error_code=0, topics=[Answer(name="t", partitions=partitions)])

    def _DescribeShareGroupOffsets(self, request: Any, _: object) -> Any:
        groups = []
        for one in request.groups:
            told = [
                Answer(partition_index=number, start_offset=offset, error_code=0, error_message=None)
                for (group, number), offset in self.committed.items()
                if group == one.group_id
            ]
            groups.append(
                Answer(
                    group_id=one.group_id,
                    error_code=0,
                    error_message=None,
                    topics=[Answer(topic_name="t", partitions=told)],
                )
            )
        return Answer(groups=groups)


KAFKA = KafkaConnection("127.0.0.1:9092")
NO_SUCH_GROUP, LOADING, DENIED, TOPIC_DENIED = 69, 14, 30, 29


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Brokers]:
    """Lets the module meet these brokers; patience is over at once, except where a test gives some."""

    def use(brokers: Brokers, patience: float = 0.0) -> Brokers:
        @contextmanager
        def opened(_: object) -> Iterator[Brokers]:
            yield brokers

        monkeypatch.setattr(groups, "open_wire", opened)
        monkeypatch.setattr(groups, "SETTLE_SECONDS", patience)
        monkeypatch.setattr(groups, "PAUSE_SECONDS", 0.0)
        return brokers

    return use


def read(partitions: Any = (0, 1)) -> TopicGroups:
    return groups.read_groups(KAFKA, "t", partitions)


def names(found: TopicGroups) -> list[str]:
    return [group.group for group in found.groups]


def reasons(found: TopicGroups) -> dict[str, str]:
    return {finding.subject: f"{finding.problem}. {finding.remedy}" for finding in found.unread}


CLASSIC_G = ("g", "classic", "consumer")


def test_groups_of_each_type_are_read_by_their_own_request(answering: Any) -> None:
    brokers = answering(
        Brokers(
            ("a", "Classic", "consumer"),
            ("b", "Consumer", "consumer"),
            ("c", "Share", "share"),
            ("d", "Streams", "streams"),
            DescribeGroups=Answer(groups=[classic("a", "Stable", classic_member("m", subscribed("t")))]),
            ConsumerGroupDescribe=Answer(groups=[described("b", coordinated("m", ["t", "u"], {"t": [0, 1]}))]),
            ShareGroupDescribe=Answer(groups=[described("c", coordinated("m", ["t"], {"t": [0]}))]),
            StreamsGroupDescribe=Answer(groups=[streams("d", ["t"], [1])]),
        )
    )
    brokers.committed = {("a", 0): 4, ("c", 1): 9}
    found = read()
    assert [(one.group, one.type, one.committed) for one in found.groups] == [
        ("a", "classic", (0,)),
        ("b", "consumer", ()),
        ("c", "share", (1,)),
        ("d", "streams", ()),
    ]
    assert [one.members[0].topics for one in found.groups] == [("t",), ("t", "u"), ("t",), ("log", "t")]
    assert found.groups[1].members[0].assigned == (TopicPartition("t", 0), TopicPartition("t", 1))
    assert found.groups[3].members[0].assigned == (TopicPartition("t", 1),)
    assert found.unread == ()
    # A group that commits no offsets is not asked for any.
    assert [name for name, _ in brokers.asked].count("DescribeShareGroupOffsets") == 1


@pytest.mark.parametrize(
    ("pattern", "state", "reads", "unread"),
    [
        ("t|x.*", "Stable", ["b"], []),
        ("x.*", "Assigning", [], []),
        ("[[:alpha:]]", "Stable", [], []),  # the coordinator would have assigned what matches
        ("[[:alpha:]]", "Assigning", [], ["consumer group b"]),
        ("(t+)+x", "Assigning", [], ["consumer group b"]),
        (".*.*.*.*.*.*.*x", "Assigning", [], ["consumer group b"]),
    ],
)
def test_a_pattern_subscribes_where_it_matches_or_may_yet_match(
    answering: Any, pattern: str, state: str, reads: list[str], unread: list[str]
) -> None:
    one = described("b", coordinated("m", [], {}, pattern), group_state=state)
    answering(Brokers(("b", "consumer", "consumer"), ConsumerGroupDescribe=Answer(groups=[one])))
    found = read()
    assert (names(found), list(reasons(found))) == (reads, unread)


def test_a_pattern_subscribes_to_what_the_coordinator_assigns_by_it(answering: Any) -> None:
    one = described("b", coordinated("m", [], {"t": [0]}, "[[:alpha:]]"), coordinated("n", [], {}, "[[:alpha:]]"))
    answering(Brokers(("b", "consumer", "consumer"), ConsumerGroupDescribe=Answer(groups=[one])))
    (found,) = read().groups
    assert [member.topics for member in found.members] == [("t",), ("t",)]


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (DENIED, "Grant the Kafka user Describe on group b"),
        (TOPIC_DENIED, "Grant the Kafka user Describe on the topics"),
        (LOADING, "coordinator is back"),
        (NO_SUCH_GROUP, "Its type is changing"),
        (35, "all brokers run one version"),
        (-1, "Read the log of broker 1"),
    ],
)
def test_a_group_that_cannot_be_read_is_named_with_its_own_remedy_and_the_others_are_read(
    answering: Any, code: int, remedy: str
) -> None:
    answering(
        Brokers(
            ("a", "classic", "consumer"),
            ("b", "consumer", "consumer"),
            DescribeGroups=Answer(groups=[classic("a", "Stable", classic_member("m", subscribed("t")))]),
            ConsumerGroupDescribe=Answer(groups=[described("b", code=code, text="Kafka's own words")]),
        )
    )
    found = read()
    assert names(found) == ["a"]
    assert list(reasons(found)) == ["consumer group b"]
    assert remedy in reasons(found)["consumer group b"]
    assert "Kafka's own words" in reasons(found)["consumer group b"]


def test_the_name_of_a_group_is_one_line_whatever_it_holds(answering: Any) -> None:
    answering(Brokers(("a\n\x1b[31m", "consumer", "consumer"), ConsumerGroupDescribe=Answer(groups=[])))
    assert list(reasons(read())) == ["consumer group a��[31m"]


def test_a_request_that_the_brokers_do_not_know_leaves_its_groups_unread(answering: Any) -> None:
    answering(Brokers(("c", "share", "share"), ShareGroupDescribe=IncompatibleBrokerVersion("no")))
    found = read()
    assert (names(found), list(reasons(found))) == ([], ["share group c"])


def test_a_type_that_is_not_known_is_named_and_never_an_absence_of_groups(answering: Any) -> None:
    answering(Brokers(("q", "queue", "queue")))
    found = read()
    assert names(found) == []
    assert "groups of type 'queue' are not known" in reasons(found)["group q"]


def test_a_group_that_changes_its_type_meanwhile_is_read_by_its_new_one(answering: Any) -> None:
    brokers = Brokers(
        ("b", "classic", "consumer"),
        DescribeGroups=Answer(groups=[classic("b", "", code=NO_SUCH_GROUP)]),
        ConsumerGroupDescribe=Answer(groups=[described("b", coordinated("m", ["t"], {}))]),
    )
    again = Answer(error_code=0, groups=[Answer(group_id="b", group_type="consumer", protocol_type="consumer")])
    first = Answer(error_code=0, groups=[Answer(group_id="b", group_type="classic", protocol_type="consumer")])
    none = Answer(error_code=0, groups=[])
    brokers.answers["ListGroups"] = [first, none, again, none]
    answering(brokers, patience=30)
    assert [(one.group, one.type) for one in read().groups] == [("b", "consumer")]


def test_a_group_that_is_deleted_meanwhile_is_none(answering: Any) -> None:
    brokers = Brokers(DescribeGroups=Answer(groups=[classic("g", "", code=NO_SUCH_GROUP)]))
    first = Answer(error_code=0, groups=[Answer(group_id="g", group_type="classic", protocol_type="consumer")])
    brokers.answers["ListGroups"] = [first, Answer(error_code=0, groups=[])]
    answering(brokers, patience=30)
    assert read() == TopicGroups(())


def test_a_broker_that_does_not_tell_its_groups_is_named_and_the_others_are_asked(answering: Any) -> None:
    told = Answer(groups=[classic("g", "Stable", classic_member("m", subscribed("t")))])
    brokers = answering(Brokers(CLASSIC_G, DescribeGroups=told))
    brokers.silent = {2}
    found = read()
    assert names(found) == ["g"]
    assert list(reasons(found)) == ["groups of broker 2"]
    brokers.silent = {1, 2}
    with pytest.raises(ReadError, match="Broker 1"):
        read()


def test_a_broker_that_still_loads_its_groups_is_named(answering: Any) -> None:
    answering(Brokers(ListGroups=Answer(error_code=LOADING, groups=[])))
    found = read()
    assert list(reasons(found)) == ["groups of broker 1", "groups of broker 2"]
    assert "CoordinatorLoadInProgress" in reasons(found)["groups of broker 1"]


def test_groups_of_a_partition_without_a_leader_are_told_by_nobody(answering: Any) -> None:
    answering(Brokers()).leaders = {0: 1, 1: -1}
    found = read()
    assert list(reasons(found)) == ["__consumer_offsets-1"]
    assert "nobody tells its groups" in reasons(found)["__consumer_offsets-1"]


def test_below_3_8_the_protocol_tells_the_type(answering: Any) -> None:
    answering(
        Brokers(
            ("c", "", "share"),
            ("g", "", "consumer"),
            DescribeGroups=Answer(groups=[classic("g", "Stable", classic_member("m", subscribed("t")))]),
            ShareGroupDescribe=Answer(groups=[described("c", coordinated("m", ["t"], {}))]),
        )
    )
    assert [(one.group, one.type) for one in read().groups] == [("c", "share"), ("g", "classic")]


def test_a_subscription_that_cannot_be_decoded_gives_way_to_the_assigned_topics(answering: Any) -> None:
    odd = classic_member("a", b"\x00", assigned({"u": [0], "t": [1, 0]}))
    answering(Brokers(CLASSIC_G, DescribeGroups=Answer(groups=[classic("g", "Stable", odd)])))
    (found,) = read().groups
    partitions = (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0))
    assert found.members == (GroupMember("a-uuid", "a", "10.0.0.1", ("t", "u"), partitions, None),)


def test_members_that_do_not_tell_what_they_read_are_named(answering: Any) -> None:
    odd = classic("g", "Stable", classic_member("a", b"\xff\xff\xff", b"\x00"))
    other = classic("h", "Stable", classic_member("a", b"own format"), protocol="of-our-own")
    connect = classic("k", "Stable", classic_member("a", b"own format"), protocol="connect")
    listed = [CLASSIC_G, ("h", "classic", "of-our-own"), ("k", "classic", "connect")]
    answering(Brokers(*listed, DescribeGroups=Answer(groups=[odd, other, connect])))
    found = read()
    assert names(found) == []
    assert set(reasons(found)) == {"consumer group g", "consumer group h"}


def test_a_group_that_settles_is_asked_again_and_alone(answering: Any) -> None:
    joining = classic("g", "PreparingRebalance", classic_member("a", b""))
    done = classic("g", "Stable", classic_member("a", subscribed("t")))
    brokers = Brokers(
        ("calm", "classic", "consumer"),
        CLASSIC_G,
        DescribeGroups=[Answer(groups=[classic("calm", "Empty"), joining]), Answer(groups=[done])],
    )
    answering(brokers, patience=30)
    (found,) = read().groups
    assert (found.group, found.state, found.members[0].topics) == ("g", "Stable", ("t",))
    assert [who for name, who in brokers.asked if name == "DescribeGroups"] == [("calm", "g"), ("g",)]


def test_a_group_that_does_not_settle_is_given_since_it_may_read_the_topic(answering: Any) -> None:
    joining = classic("g", "CompletingRebalance", classic_member("a", b""))
    answering(Brokers(CLASSIC_G, DescribeGroups=Answer(groups=[joining])))
    (found,) = read().groups
    assert (found.state, found.assignor, found.members[0].topics) == ("CompletingRebalance", "", ())


@pytest.mark.parametrize("takes_many", [True, False])
def test_groups_of_other_topics_are_left_out_and_offsets_alone_count(answering: Any, takes_many: bool) -> None:
    told = [
        classic("other", "Stable", classic_member("a", subscribed("u"), assigned({"u": [0]}))),
        classic("left", "Empty"),
        classic("simple", "Empty", protocol=""),
    ]
    listed = [("other", "classic", "consumer"), ("left", "classic", "consumer"), ("simple", "classic", "")]
    brokers = answering(Brokers(*listed, DescribeGroups=Answer(groups=told)))
    brokers.committed, brokers.takes_many = {("simple", 1): 7}, takes_many
    found = read()
    assert [(one.group, one.committed) for one in found.groups] == [("simple", (1,))]
    assert found.unread == ()


def test_offsets_that_cannot_be_read_are_named(answering: Any) -> None:
    refused = Answer(groups=[Answer(group_id="g", error_code=DENIED, topics=[])])
    answering(Brokers(CLASSIC_G, DescribeGroups=Answer(groups=[classic("g", "Empty")]), OffsetFetch=refused))
    found = read()
    assert names(found) == []
    assert "of its offsets" in reasons(found)["consumer group g"]
    assert "Grant the Kafka user Describe on group g" in reasons(found)["consumer group g"]


def test_brokers_that_may_leave_out_groups_are_not_asked_for_them(answering: Any) -> None:
    brokers = answering(Brokers())
    brokers.may_describe = False
    for ask in (read, lambda: groups.read_committed_offsets(KAFKA, [1, 2])):
        with pytest.raises(ReadError, match="silently leave out consumer groups"):
            ask()
    assert "ListGroups" not in [name for name, _ in brokers.asked]


def test_a_user_who_may_list_nothing_is_told_what_to_grant(answering: Any) -> None:
    answering(Brokers(ListGroups=Answer(error_code=31, groups=[])))
    with pytest.raises(ReadError, match="Grant it Describe on the cluster"):
        read()


# --- the offsets of all groups ---


def test_the_offsets_of_all_groups_come_by_partition_from_every_broker(answering: Any) -> None:
    """A share group commits none: its first record that is not done counts."""
    listed = [(name, "classic", "consumer") for name in ("audit", "billing")]
    brokers = answering(Brokers(*listed, ("queue", "share", "share"), ("workers", "classic", "connect")))
    brokers.committed = {("billing", 0): 7, ("audit", 0): 5, ("queue", 1): 3, ("billing", 2): 0}
    assert groups.read_committed_offsets(KAFKA, {2, 1}) == {
        TopicPartition("t", 0): {"audit": 5, "billing": 7},
        TopicPartition("t", 1): {"queue": 3},
        TopicPartition("t", 2): {"billing": 0},
    }
    assert [broker for name, broker in brokers.asked if name == "ListGroups"] == [1, 2]


def test_a_cluster_without_groups_has_no_offsets(answering: Any) -> None:
    answering(Brokers())
    assert groups.read_committed_offsets(KAFKA, {1}) == {}


def test_nobody_names_the_topic_of_offsets_before_it_is_there(answering: Any) -> None:
    brokers = Brokers()
    brokers.has_offsets_topic = False
    answering(brokers)
    assert groups.read_groups(KAFKA, "orders", [0]).groups == ()


def test_one_group_that_cannot_be_read_leaves_none_of_the_offsets(answering: Any) -> None:
    refused = Answer(groups=[Answer(group_id="a", error_code=DENIED, topics=[])])
    brokers = answering(Brokers(("a", "classic", "consumer"), ("b", "classic", "consumer"), OffsetFetch=refused))
    with pytest.raises(ReadError, match=r"consumer group a: of its offsets.*one of 2 such groups"):
        groups.read_committed_offsets(KAFKA, {1})
    brokers.answers.clear()
    brokers.silent = {2}
    with pytest.raises(ReadError, match="groups of broker 2"):
        groups.read_committed_offsets(KAFKA, {1, 2})


def test_brokers_that_do_not_answer_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "FIRST_SECONDS", 0.2)
    with pytest.raises(ReadError, match=r"127\.0\.0\.1:1 "):
        groups.read_groups(KafkaConnection("127.0.0.1:1"), "t", [0])
