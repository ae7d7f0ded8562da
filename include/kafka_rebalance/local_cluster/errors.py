"""The one error of this package. Its text says what happened, to which object, what was not changed, what to do."""


class LocalClusterError(Exception):
    """A request to a local cluster, its jars or its Java runtime that cannot be met."""
