"""Measure everything on a GPU with one command, in less than nine minutes: ``python -m benchmarks.gpu``."""
