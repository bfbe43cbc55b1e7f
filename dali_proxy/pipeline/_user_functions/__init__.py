"""Calls of the user's Python functions: their arguments and results, and their random numbers."""
