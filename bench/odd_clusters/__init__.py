"""Odd clusters, drawn at random, and a judge that recounts their plans without any code of the planner."""
