"""What one run is: its folder, the plan that was approved, the lock, and what may keep it from writing."""
