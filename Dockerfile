# One image for Airflow's processes, the Spark driver and the Spark workers, so that all of them run the same pins.
# Based on Python's image, not on apache/airflow: that one brings some hundred packages in its own versions, and what
# the tests ran with is requirements.txt.
#
# The digest is the one that docker-library/repo-info records for this tag (Python 3.11.16, Debian of 2026-08-24). To
# take a newer one: docker compose build --build-arg PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:...
ARG PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b
FROM ${PYTHON_IMAGE}

# Spark 4 needs Java 17 or newer; tini hands signals to the processes.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/kafka-rebalance
COPY requirements.txt ./
RUN pip install --no-cache-dir --require-hashes -r requirements.txt

COPY pyproject.toml README.md LICENSE ./
COPY include ./include
# Installed as others install it, and not editable: pip compiles the modules now, because the user below may not write
# beside them.
RUN pip install --no-cache-dir --no-deps --no-build-isolation . \
    && rm -rf build include
COPY dags ./dags
COPY plugins ./plugins
COPY demo ./demo

RUN useradd --uid 50000 --gid 0 --create-home --home-dir /opt/airflow airflow \
    # A new volume takes its owner from the folder it is mounted over.
    && mkdir -p /opt/runs /opt/airflow/logs \
    && chown airflow:root /opt/runs /opt/airflow/logs
USER airflow

ENV AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/kafka-rebalance/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/kafka-rebalance/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    AIRFLOW__KAFKA_REBALANCE__RUNS_URL=/opt/runs \
    PYSPARK_PYTHON=/usr/local/bin/python \
    PYSPARK_DRIVER_PYTHON=/usr/local/bin/python \
    PYTHONUNBUFFERED=1

ENTRYPOINT ["tini", "--"]
CMD ["airflow", "api-server"]
