"""Operators on arrays of any kind: arithmetic, casts, shapes, reductions."""
