# One image for Airflow's processes, the Spark driver and the Spark workers, so that all of them run the same pins.
# Based on Python's image, not on apache/airflow: that one brings some hundred packages in its own versions, and what
# the tests ran with is requirements.txt.
FROM python:3.11-slim-bookworm

# Spark 4 needs Java 17 or newer; procps is used by Spark's scripts, tini hands signals to Airflow's processes.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/kafka-rebalance
COPY requirements.txt ./
RUN pip install --no-cache-dir --require-hashes -r requirements.txt

COPY pyproject.toml README.md LICENSE ./
COPY include ./include
COPY dags ./dags
COPY plugins ./plugins
# Installed, not only on PYTHONPATH: the connection form comes from the package's entry point.
RUN pip install --no-cache-dir --no-deps --no-build-isolation -e .

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
    PYSPARK_DRIVER_PYTHON=/usr/local/bin/python

ENTRYPOINT ["tini", "--"]
CMD ["airflow", "api-server"]
