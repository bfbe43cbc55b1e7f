"""Operators that blur, filter, distort or erase."""
