"""Approved moves against what the cluster shows: how far each is, what may go on, what a cancel does. Pure."""
