"""Operators that move pixels: crop, resize, rotate and related ones."""
