"""Benchmarks of batches for vision-language models: ``python -m benchmarks.packing --help``."""
