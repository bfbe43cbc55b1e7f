"""Operators that run code of the user, or read data from it."""
