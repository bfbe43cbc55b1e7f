"""Runnable steps of a graph: each runs one or several operators on a batch."""
