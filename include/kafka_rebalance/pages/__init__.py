"""The pages of runs and of clusters: figures become words, tables and plots."""
