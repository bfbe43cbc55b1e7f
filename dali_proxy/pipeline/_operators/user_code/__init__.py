"""Operators that run the user's code or take in the user's data."""
