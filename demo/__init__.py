"""The whole product on one machine: real ZooKeeper and brokers, real Airflow, one rebalance to its verification."""
