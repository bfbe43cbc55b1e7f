"""Compare loaders on several kinds of data: ``python -m benchmarks.comparison --help``."""
