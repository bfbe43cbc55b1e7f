"""Threads: pools, queues, core affinity, and hooks for forks and finalizers."""
