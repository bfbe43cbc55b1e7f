"""Operators that read and decode files: images, videos and arrays."""
