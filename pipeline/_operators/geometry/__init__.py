"""Operators that move pixels: crop, resize, rotate and their relatives."""
