"""Every error of this package, in one tree.

RebalanceError
├── InputError                a person's input cannot be used; nothing on a cluster was read or written because of it
│   ├── SettingsError         settings of a run or params of a Dag: unknown, of the wrong type, or out of range
│   ├── PolicyError           the policy file of the cluster is missing or wrong, or a request goes beyond it
│   ├── ConnectionSettingsError   the Airflow connection lacks something, or holds something that cannot be used
│   └── ThrottleRateError     a rate is outside the policy's range, or so low that a copy would never end
├── KafkaRuleError            a rule of Kafka itself is broken; the error carries Kafka's own message
├── ArtifactError             a file of the run's folder is missing, unreadable, or of another version or digest
│   ├── FormatVersionError    a file has a major format version that this code does not know
│   └── RunFolderError        the run's folder cannot be written, is not shared, or lies outside its root
│       └── StorageError      storage did not read, write or list a file; a retry may succeed
├── ReadError                 the cluster could not be read, so nobody knows what is there
│   ├── AuthenticationError   user, password or a certificate is refused, by the cluster or by us
│   ├── ReadDeniedError       this user may not read it
│   └── CorruptZnodeError     a znode was read, but its content is not what Kafka writes
├── SparkError                Spark cannot run a job: an executor lacks Python or a library, or two versions are mixed
├── ClusterNotReadyError      the cluster is in a condition in which we do not plan or write
│   └── FrozenError           people have frozen the cluster
├── PlanningError             no plan can satisfy the request; the error gives the figures
├── ApprovalError             an answer does not count: it has another digest, or comes from the wrong person
│   └── ApprovalExpiredError  nobody answered a request in time
├── StaleProposalError        the cluster is no longer the one that was approved
├── LockHeldError             another run holds the lock of this cluster
├── WriteError                ZooKeeper refused a write, or the outcome of a write is unknown
│   ├── WriteDeniedError      this user may not write it
│   ├── LockLostError         another worker has taken over; this one writes nothing more and undoes nothing
│   └── ConfigChangedError    somebody else changed a config after we decided to change it
├── NothingToDoError          there is nothing to do; this is no failure, and the following tasks are skipped
├── ExecutionError            a reassignment does not go on
│   ├── RefusedError          the controller dropped a request, or somebody changed it; asking again does not help
│   └── StoppedError          people asked for no further batch, or their time is over
├── ThrottleError             a throttle could not be set, read back or put back
│   └── UnwatchedError        copies are in flight under a throttle of ours, and nobody follows them
└── VerificationError         the end is not the approved one
    └── NotInSyncError        the approved replicas are in place, but one of them is not in sync at this moment

An error says what happened, to which object, what was or was not changed, and what to do.
"""


class RebalanceError(Exception): ...


class InputError(RebalanceError): ...


class SettingsError(InputError): ...


class PolicyError(InputError): ...


class ConnectionSettingsError(InputError): ...


class ThrottleRateError(InputError): ...


class KafkaRuleError(RebalanceError):
    """`kafka_message` is Kafka's own text; `str()` adds what to do."""

    def __init__(self, kafka_message: str, remedy: str = "Nothing was written.") -> None:
        stop = "" if kafka_message.endswith(".") else "."
        super().__init__(f"{kafka_message}{stop} {remedy}")
        self.kafka_message = kafka_message


class ArtifactError(RebalanceError): ...


class FormatVersionError(ArtifactError): ...


class RunFolderError(ArtifactError): ...


class StorageError(RunFolderError): ...


class ReadError(RebalanceError): ...


class AuthenticationError(ReadError): ...


class ReadDeniedError(ReadError): ...


class CorruptZnodeError(ReadError): ...


class SparkError(RebalanceError): ...


class ClusterNotReadyError(RebalanceError): ...


class FrozenError(ClusterNotReadyError): ...


class PlanningError(RebalanceError): ...


class ApprovalError(RebalanceError): ...


class ApprovalExpiredError(ApprovalError): ...


class StaleProposalError(RebalanceError): ...


class LockHeldError(RebalanceError): ...


class WriteError(RebalanceError): ...


class WriteDeniedError(WriteError): ...


class LockLostError(WriteError): ...


class ConfigChangedError(WriteError): ...


class NothingToDoError(RebalanceError): ...


class ExecutionError(RebalanceError): ...


class RefusedError(ExecutionError): ...


class StoppedError(ExecutionError): ...


class ThrottleError(RebalanceError): ...


class UnwatchedError(ThrottleError): ...


class VerificationError(RebalanceError): ...


class NotInSyncError(VerificationError): ...
