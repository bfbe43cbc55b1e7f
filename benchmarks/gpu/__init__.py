"""Measure everything on a GPU with one command, in less than eight minutes: ``python -m benchmarks.gpu``."""
