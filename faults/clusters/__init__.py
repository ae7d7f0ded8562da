"""The cluster of a case: its servers, its file systems, and what they show."""
