"""Measurements, each behind a command of its own: `make help` lists those that begin with bench."""
