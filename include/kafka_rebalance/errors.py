"""Every error of this package, one tree.

RebalanceError
├── InputError                a person's input: nothing was read from or written to a cluster because of it
│   ├── SettingsError         settings of a run, or params of a Dag
│   ├── PolicyError           the cluster's policy file, or a request beyond what it allows
│   ├── ConnectionSettingsError   the Airflow connection of the cluster
│   └── ThrottleRateError     a rate outside the policy, or at which a copy could never end
├── KafkaRuleError            a rule of Kafka itself; carries Kafka's own message
├── ArtifactError             a file of the run's folder: missing, unreadable, of another version or digest
│   ├── FormatVersionError    a file whose format has changed since this version
│   └── RunFolderError        the run's folder itself: not writable, not shared, outside its root
│       └── StorageError      storage did not do what was asked of it, perhaps for this moment only
├── ReadError                 the cluster could not be read: never the same as "nothing is there"
│   └── CorruptZnodeError     a znode whose content is not what Kafka writes
├── ClusterNotReadyError      the cluster was read, and is in a condition in which we do not plan or write
│   └── FrozenError           people have frozen the cluster
├── PlanningError             no plan can satisfy what was asked, with the numbers that make it impossible
├── ApprovalError             an answer that must not count: other digest, wrong person
│   └── ApprovalExpiredError  a request that nobody has answered in time
├── StaleProposalError        the cluster is no longer the one that was approved
├── LockHeldError             another run holds this cluster
├── WriteError                a write to ZooKeeper was refused or its outcome is unknown
│   ├── LockLostError         another worker has taken over, so this one writes nothing more
│   └── ConfigChangedError    somebody else has changed a config since the decision to change it
├── NothingToDoError          there is nothing of what was asked for; nothing is wrong, and what follows is skipped
├── ExecutionError            a reassignment that does not go on
│   ├── RefusedError          the controller dropped what was requested, or somebody else changed it
│   └── StoppedError          people, or the time they gave, want no further batch
├── ThrottleError             a throttle that could not be set, read back or put back
│   └── UnwatchedError        copies are in flight under a throttle, and nobody follows them
└── VerificationError         the end is not the approved one
    └── NotInSyncError        it is, but for a replica that is not in sync at this moment

Texts say what happened, to which object, what was or was not changed, and what to do.
"""


class RebalanceError(Exception):
    """Base of all errors of this package."""


class InputError(RebalanceError):
    """What a person gave cannot be used."""


class SettingsError(InputError):
    """Settings of a run are unknown, of the wrong type or out of range."""


class PolicyError(InputError):
    """The policy is missing or wrong, or a request goes beyond it."""


class ConnectionSettingsError(InputError):
    """The Airflow connection lacks something or holds something that cannot be used."""


class ThrottleRateError(InputError):
    """A throttle's rate is outside the policy's range, or too low for a copy ever to end."""


class KafkaRuleError(RebalanceError):
    """A rule of Kafka is broken; `kafka_message` is Kafka's own text, `str()` adds what to do."""

    def __init__(self, kafka_message: str, remedy: str = "") -> None:
        stop = "" if kafka_message.endswith(".") else "."
        super().__init__(f"{kafka_message}{stop} {remedy}" if remedy else kafka_message)
        self.kafka_message = kafka_message


class ArtifactError(RebalanceError):
    """A file of the run's folder cannot be used."""


class FormatVersionError(ArtifactError):
    """A file has a major version that this code does not know."""


class RunFolderError(ArtifactError):
    """The run's folder cannot be written, is not shared, or lies outside its root."""


class StorageError(RunFolderError):
    """Storage did not read, write or list a file: what is there is unknown, and a retry may find it."""


class ReadError(RebalanceError):
    """Something on the cluster could not be read. Whether it exists is unknown."""


class CorruptZnodeError(ReadError):
    """A znode was read, but its content is not what Kafka writes there."""


class ClusterNotReadyError(RebalanceError):
    """The cluster is in a condition in which nothing is planned or written."""


class FrozenError(ClusterNotReadyError):
    """The freeze switch is on for this cluster: nothing is written."""


class PlanningError(RebalanceError):
    """No plan can satisfy what was asked."""


class ApprovalError(RebalanceError):
    """An answer to an approval request that must not count."""


class ApprovalExpiredError(ApprovalError):
    """Nobody has answered an approval request in time."""


class StaleProposalError(RebalanceError):
    """The cluster is no longer the one that was approved."""


class LockHeldError(RebalanceError):
    """Another run holds this cluster's lock."""


class WriteError(RebalanceError):
    """A write to ZooKeeper was refused, or its outcome is unknown."""


class LockLostError(WriteError):
    """Another worker has taken over since this one began: it writes nothing more, and takes nothing back."""


class ConfigChangedError(WriteError):
    """Somebody else has changed a config since the decision to change it."""


class NothingToDoError(RebalanceError):
    """There is nothing to do: the step ends, and what would follow it is skipped. It is no failure."""


class ExecutionError(RebalanceError):
    """A reassignment was refused by the controller or does not make progress."""


class RefusedError(ExecutionError):
    """Partitions of a batch will not reach the approved replicas: asking again would not help."""


class StoppedError(ExecutionError):
    """No further batch was requested, as people asked."""


class ThrottleError(RebalanceError):
    """A throttle could not be set, confirmed or put back."""


class UnwatchedError(ThrottleError):
    """Copies are in flight under a throttle of ours, and nobody follows them."""


class VerificationError(RebalanceError):
    """The cluster's end condition is not the approved one."""


class NotInSyncError(VerificationError):
    """The approved replicas are in place, and one of them is not in sync now, as while its broker is restarted."""
