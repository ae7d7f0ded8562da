"""Whether the installed Spark is one version: `pyspark` and `pyspark-client` write files of the same names."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from kafka_rebalance.errors import SparkError
from kafka_rebalance.run.inputs import StepInputs

_PACKAGES = ("pyspark", "pyspark-client")


def check_one_version(_inputs: StepInputs) -> None:
    """Raises SparkError if both are installed in different versions: then each has files of the other.

    With one of them alone there is nothing to mix. Spark's driver may also be elsewhere.
    """
    found = {name: installed for name in _PACKAGES if (installed := _version(name)) is not None}
    if len(set(found.values())) > 1:
        both = " and ".join(f"{name} {installed}" for name, installed in found.items())
        one = " ".join(f"{name}=={found['pyspark']}" for name in found)
        raise SparkError(
            f"{both} are installed together. They write files of the same names, so this Spark is a mixture of two "
            f"versions. Nothing was read from or written to the cluster. Install one version of both with `pip install "
            f"--force-reinstall --no-deps {one}`, on every host of Airflow. Then clear this task."
        )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
