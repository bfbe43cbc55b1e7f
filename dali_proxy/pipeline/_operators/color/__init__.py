"""Operators that change each pixel independently of other pixels."""
