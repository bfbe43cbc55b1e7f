"""Every operator beside NVIDIA DALI's: ``python -m benchmarks.operators --help``."""
