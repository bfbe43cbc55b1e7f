"""Threads: pools, work queues, core affinity, time accounting, fork hooks and finalizers."""
