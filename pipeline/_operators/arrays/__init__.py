"""Operators on arrays of any meaning: arithmetic, casts, shapes, reductions."""
