"""The one error of this package. Texts say what happened, to what, what was left as it was, and what to do."""


class LocalClusterError(Exception):
    """A local cluster, its jars or its Java runtime cannot be used as asked."""
