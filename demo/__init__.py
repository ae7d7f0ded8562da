"""The whole product on one machine: real ZooKeeper, brokers and Airflow, and one rebalance up to its verification."""
