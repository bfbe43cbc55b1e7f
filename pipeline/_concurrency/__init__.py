"""Threads: pools, lanes, core affinity, time accounting, fork hooks and finalizers."""
