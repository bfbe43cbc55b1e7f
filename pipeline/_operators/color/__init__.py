"""Operators that change the values of pixels independently of each other."""
