"""Everything that is measured on a GPU, in one command of less than eight minutes: ``python -m benchmarks.gpu``."""
