"""Operators that run or take in the user's code and data."""
