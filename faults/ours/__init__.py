"""Our tasks, as processes that a fault may kill."""
