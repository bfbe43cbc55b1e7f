"""Compare the throughput of this loader with others on one machine, in one session: ``python -m benchmarks``."""
