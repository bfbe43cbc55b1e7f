"""Throughput of this loader beside others, on one machine and in one run: ``python -m benchmarks``."""
