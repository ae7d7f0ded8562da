"""The web pages of runs and clusters, and who may see them."""
