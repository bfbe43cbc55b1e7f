"""Operators that blur, filter, distort, erase or add noise."""
