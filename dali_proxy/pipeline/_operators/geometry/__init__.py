"""Operators that move pixels, such as crop, resize and rotate."""
