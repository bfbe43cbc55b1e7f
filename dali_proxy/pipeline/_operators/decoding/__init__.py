"""Operators that read, decode and write files: images, videos and arrays."""
