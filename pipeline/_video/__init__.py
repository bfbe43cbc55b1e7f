"""Indexes encoded videos, and decodes exactly the requested frames."""
