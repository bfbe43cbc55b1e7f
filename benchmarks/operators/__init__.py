"""Compare every operator with NVIDIA DALI's: ``python -m benchmarks.operators --help``."""
