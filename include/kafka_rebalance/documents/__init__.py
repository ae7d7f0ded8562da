"""The files of a run's folder that several rooms read, and how any file is read and written."""
