"""Records what today's version leaves at four moments of one run, into `upgrades/<version>/`.

Run it from the repository's root, once, just before a release:
`PYTHONPATH=include:tests:. python tests/data/record_upgrade.py`. Later versions must go on from these files.
"""

import tempfile
from pathlib import Path
from typing import Any

from support.airflow import airflow_home  # isort: skip  # noqa: F401  first: it sets Airflow's environment

import pytest
from airflow.models.crypto import get_fernet
from airflow.models.trigger import Trigger

import kafka_rebalance
from kafka_rebalance.nightly import check_cluster
from kafka_rebalance.workflow.run_step import run_step
from support.golden.chain import RecordedCluster, RecordedRun
from support.golden.clock import stop_clocks
from support.golden.planning import without_pictures
from support.golden.records import given
from support.runs.janitor_run import Airflow
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import other_dag_run
from support.upgrades.moments import AWAY, FOLDER, RACK, START, Moment, as_xcom, keep
from support.zookeeper.fake_zookeeper import REASSIGN, register


def record() -> Path:
    """The whole run on a simulated cluster, by the product's own tasks."""
    version = kafka_rebalance.__version__
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as root:
        start, clock = given(START), stop_clocks(patch)
        without_pictures(patch)
        cluster = RecordedCluster(patch, start)
        run = RecordedRun(Path(root), cluster, patch, start, "one", lambda: None)

        def stored(**more: Any) -> dict[str, Any]:
            xcoms = {"snapshot": {key: as_xcom(value) for key, value in run.xcom.items() if key != "decision"}}
            if run.decision:
                xcoms["approve"] = {"decision": as_xcom(run.decision)}
            return {"now": clock.now, "xcoms": xcoms, **more}

        def trigger() -> dict[str, Any]:
            deferred = run.deferred
            assert deferred is not None
            row = Trigger.from_object(deferred.trigger)
            kwargs = get_fernet().decrypt(row.encrypted_kwargs.encode()).decode()
            return {"classpath": row.classpath, "kwargs": kwargs, "next_method": deferred.method_name}

        Airflow.answering(patch)
        run_step(check_cluster.check, other_dag_run("nightly"), CONNECTION)
        run.plan_as_given(START)
        asked = run.ask()
        form = {name: asked.params[name] for name in asked.params}
        request = {"options": asked.options, "params": form, "assigned_users": asked.assigned_users}
        keep(version, Moment.WAITING, run, cluster, stored(request=request))

        clock.sleep(600)
        run.answer(at=clock.now, **start["answer"])
        run.hold()
        assert run.request() == 1
        looks = iter([False, True])
        run.follow(1, until=lambda: cluster.step() and next(looks))
        assert REASSIGN in cluster.fake.znodes
        keep(version, Moment.DEFERRED, run, cluster, stored(trigger=trigger()))

        seen, _ = run.follow(1, until=lambda: not (cluster.step() or True))
        assert seen is not None
        cluster.fake.delete(f"/brokers/ids/{AWAY}")
        assert run.resume(seen) is None
        keep(version, Moment.PAUSED, run, cluster, stored(trigger=trigger()))

        register(cluster.fake, AWAY, RACK)
        run.reassign()
        assert run.finish()["passed"]
        keep(version, Moment.ENDED, run, cluster, stored())
    return FOLDER / version


if __name__ == "__main__":
    print(record())
