"""What people look at: the pages of a run and of the fleet, and the files of a run's folder that they show."""
