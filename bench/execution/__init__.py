"""What execution costs on real brokers, with ZooKeeper and without."""
