"""The command `kafka-rebalance`: a first look at a cluster without Airflow. It writes to no cluster."""
