"""Threads: pools, lanes, core affinity, accounting of time, and hooks for forks and finalizers."""
