"""Encoded videos: an index of their frames, and exact decoding of single frames."""
