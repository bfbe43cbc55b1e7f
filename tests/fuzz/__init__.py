"""Attacks on everything that reads bytes: `python -m tests.fuzz`."""
