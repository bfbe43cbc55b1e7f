"""Operators that change the values of pixels, each by itself."""
